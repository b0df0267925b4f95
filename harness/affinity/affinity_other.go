//go:build !linux

package affinity

// Of fails with ErrUnsupported.
func Of(int) ([]int, error) { return nil, ErrUnsupported }

// Set fails with ErrUnsupported.
func Set(int, []int) error { return ErrUnsupported }

// On fails with ErrUnsupported.
func On(int, func() error) error { return ErrUnsupported }
