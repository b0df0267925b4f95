//go:build !linux

package harness

// cpusOf is known on Linux only.
func cpusOf(int) []int { return nil }
