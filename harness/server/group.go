package server

import "errors"

// A host is what runs one node that we started: what its source knows.
type host interface {
	processes() []Process // empty if this system cannot see any
	stop() error          // ends it and waits until it has ended
}

// A group is the host of a node that stands for several servers that work together.
type group []host

func (g group) processes() (list []Process) {
	for _, h := range g {
		list = append(list, h.processes()...)
	}
	return list
}

// stop ends the last first: those who watch before those who are watched.
func (g group) stop() error {
	var errs []error
	for i := len(g) - 1; i >= 0; i-- {
		errs = append(errs, g[i].stop())
	}
	return errors.Join(errs...)
}
