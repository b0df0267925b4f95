package harness

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
)

// parking stops an owner at a step of its lock's algorithm until it is told to go on. The
// zero value stops nobody.
type parking struct {
	mu     sync.Mutex
	step   string          // at which the next owner stops, "" if none is to
	tell   func(parked)    // that one has
	passed map[string]bool // names of the steps since park was called
	resume chan struct{}   // closed when the owner is to go on; nil if nobody is parked or is to be
}

// parked is an owner that has stopped at a step.
type parked struct {
	Step  string `json:"step"`
	Owner int    `json:"owner"` // −1 is none: what a lock does beside its owners, such as renewing
}

// stepInside is the step of the worker itself that each owner passes while it holds a key:
// there only the holder stands still, and what renews its lease goes on.
const stepInside = "inside"

// ownerKey is that of an owner's number in the contexts of its calls.
type ownerKey struct{}

// named is ctx for the calls of owner.
func named(ctx context.Context, owner int) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// park has the next owner that comes to step stop there, which tell is told.
func (p *parking) park(step string, tell func(parked)) error {
	switch {
	case p == nil:
		return errors.New("its owners cannot be parked: its spec says that they are not to be")
	case step == "":
		return errors.New("it was told to park without a step")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resume != nil {
		return errors.New("an owner is parked there already")
	}
	p.step, p.tell, p.passed, p.resume = step, tell, make(map[string]bool), make(chan struct{})
	return nil
}

// hook is a lock.Config.Hook. Who stops does not look at its ctx, as nobody does who is
// stalled.
func (p *parking) hook(ctx context.Context, step string) error {
	p.mu.Lock()
	if p.resume == nil {
		p.mu.Unlock()
		return nil
	}
	p.passed[step] = true
	if step != p.step {
		p.mu.Unlock()
		return nil
	}
	p.step = ""
	owner, ok := ctx.Value(ownerKey{}).(int)
	if !ok {
		owner = -1
	}
	resume := p.resume
	p.tell(parked{step, owner}) // before proceed can answer
	p.mu.Unlock()
	<-resume
	return nil
}

// proceed ends park, and returns the names of the steps that were passed since.
func (p *parking) proceed() ([]string, error) {
	if p == nil {
		return nil, errors.New("nobody is parked")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resume == nil {
		return nil, errors.New("nobody is parked")
	}
	close(p.resume)
	p.resume, p.step = nil, ""
	return slices.Sorted(maps.Keys(p.passed)), nil
}
