//go:build !linux

package harness

const kernelThreads = -1

func readMachine() (machineUse, bool) { return machineUse{}, false }
