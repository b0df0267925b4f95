//go:build !linux

package server

func cpuTime(int) (ns float64, ok bool) { return 0, false }

func readyTime(int) (ns float64, ok bool) { return 0, false }
