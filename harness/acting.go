package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/lockbench/lockbench/impls/lock"
)

// An order is what an actor is told, with the fields that its Do needs.
type order struct {
	ID    int    `json:"id"`
	Do    string `json:"do"`
	Actor int    `json:"actor,omitempty"` // of open: which it is

	Spec *Spec `json:"spec,omitempty"` // of open

	Key  int           `json:"key,omitempty"` // number on the stage
	Name string        `json:"name,omitempty"`
	As   string        `json:"as,omitempty"`     // the owner's name, of a lock that can be re-entered; else ""
	For  time.Duration `json:"for_ns,omitempty"` // bound of a wait, extension of a lease, offset of the clock

	Step string `json:"step,omitempty"` // of park
	Skip int    `json:"skip,omitempty"` // of park: passages before
	Peer string `json:"peer,omitempty"` // of switch: the engine
}

// The orders. Each is answered at once, and acted follows when it is done.
const (
	orderOpen    = "open"
	orderAcquire = "acquire"
	orderTry     = "try"
	orderShared  = "shared"
	orderRelease = "release"
	orderExtend  = "extend"
	orderCheck   = "check"
	orderWrite   = "write"
	orderPark    = "park"
	orderGo      = "go"
	orderClock   = "clock"
	orderSwitch  = "switch"
	orderSteps   = "steps"
	orderClose   = "close"
)

// acted is how an order ended.
type acted struct {
	ID    int      `json:"id"`
	Deed  Deed     `json:"deed,omitempty"`
	Error string   `json:"error,omitempty"`
	Yes   bool     `json:"yes,omitempty"`   // of check: the guard has not ended; of write: a fenced resource takes it
	Token uint64   `json:"token,omitempty"` // of a grant
	Steps []string `json:"steps,omitempty"` // of steps
	Step  string   `json:"step,omitempty"`  // of park: somebody stands there
}

// An acting is the part of a worker process that plays an actor.
type acting struct {
	me     int
	stage  *stage
	clock  clock
	say    func(acted)
	locker lock.Locker
	offset atomic.Int64 // of the wall clock
	asked  atomic.Bool

	mu     sync.Mutex
	held   map[int][]*holding // by key, the last to be granted last
	steps  []string
	parked map[int]*parkedAt // by the order
}

type holding struct {
	lease   lock.Lease
	guarded context.Context //nolint:containedctx // it is what is looked at
	stop    context.CancelFunc
	checked bool
}

// A parkedAt is one place at which an actor is to stop.
type parkedAt struct {
	step   string
	skip   int
	taken  bool
	resume chan struct{}
}

func newActing(memory *os.File, say func(acted)) (*acting, error) {
	m, err := mapFile(int(memory.Fd()), stageSize)
	if err != nil {
		return nil, err
	}
	return &acting{stage: (*stage)(unsafe.Pointer(&m[0])), say: say, held: map[int][]*holding{}, parked: map[int]*parkedAt{}}, nil
}

// do begins what o says.
func (a *acting) do(all []lock.Variant, o order) error {
	switch o.Do {
	case orderOpen:
		if o.Spec == nil {
			return errors.New("it was told to open nothing")
		}
		a.me, a.clock = o.Actor, clockFrom(o.Spec.Zero)
		v, err := o.Spec.pick(all)
		if err != nil {
			return err
		}
		go a.open(v, o)
	case orderPark:
		a.mu.Lock()
		a.parked[o.ID] = &parkedAt{step: o.Step, skip: o.Skip, resume: make(chan struct{})}
		a.mu.Unlock()
	case orderGo:
		a.mu.Lock()
		p := a.parked[o.Key]
		delete(a.parked, o.Key)
		a.mu.Unlock()
		if p == nil {
			return errors.New("it stands at no such step")
		}
		close(p.resume)
	case orderClock:
		a.offset.Store(int64(o.For))
	case orderSteps:
		a.mu.Lock()
		steps := a.steps
		a.steps = nil
		a.mu.Unlock()
		a.say(acted{ID: o.ID, Steps: steps})
	case orderClose:
		go func() {
			var text string
			if a.locker != nil {
				text = textOf(a.locker.Close())
			}
			a.say(acted{ID: o.ID, Error: text})
		}()
	default:
		if a.locker == nil {
			return fmt.Errorf("it was told to %s before it was opened", o.Do)
		}
		go a.play(o)
	}
	return nil
}

func (a *acting) open(v lock.Variant, o order) {
	c := o.Spec.Config
	c.Hook = a.hook
	c.Now = func() time.Time {
		if a.asked.CompareAndSwap(false, true) {
			a.log(Event{Deed: Asked, Key: -1})
		}
		return time.Now().Add(time.Duration(a.offset.Load()))
	}
	a.offset.Store(int64(o.For))
	ctx, cancel := context.WithTimeout(context.Background(), patience+c.Timeout)
	defer cancel()
	l, err := v.Open(ctx, o.Spec.deployment(), c)
	if err == nil {
		a.locker = l
	}
	a.say(acted{ID: o.ID, Error: textOf(err)})
}

func (a *acting) log(e Event) int64 {
	e.Actor, e.At = a.me, time.Duration(a.clock.now())
	return a.stage.add(e)
}

// hook stops whoever comes to a step at which the actor is to stop, until it may go on.
func (a *acting) hook(_ context.Context, step string) error {
	a.mu.Lock()
	a.steps = append(a.steps, step)
	var stand *parkedAt
	id := 0
	for i, p := range a.parked {
		if p.step != step || p.taken {
			continue
		}
		if p.skip > 0 {
			p.skip--
			continue
		}
		p.taken, stand, id = true, p, i
		break
	}
	a.mu.Unlock()
	if stand != nil {
		a.say(acted{ID: id, Step: step})
		<-stand.resume
	}
	return nil
}

// play carries out an order that may take long.
func (a *acting) play(o order) {
	out := acted{ID: o.ID}
	var err error
	switch o.Do {
	case orderAcquire, orderTry, orderShared:
		out, err = a.acquire(o)
	case orderRelease:
		out.Deed, err = a.release(o)
	case orderExtend:
		out.Deed, err = a.extend(o)
	case orderCheck:
		out.Yes, err = a.check(o)
	case orderWrite:
		out.Yes, err = a.write(o)
	case orderSwitch:
		s, ok := a.locker.(lock.Switcher)
		if !ok {
			err = errors.New("it cannot switch")
			break
		}
		ctx, cancel := context.WithTimeout(context.Background(), max(o.For, patience))
		defer cancel()
		err = s.Switch(ctx, o.Peer)
	default:
		err = fmt.Errorf("it was told to %q, which it does not know", o.Do)
	}
	out.ID, out.Error = o.ID, textOf(err)
	a.say(out)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (a *acting) acquire(o order) (out acted, err error) {
	ctx := context.Background()
	if o.For > 0 {
		bounded, cancel := context.WithTimeout(ctx, o.For)
		defer cancel()
		ctx = bounded
	}
	a.log(Event{Deed: Called, Key: o.Key})
	var lease lock.Lease
	switch owned, ok := a.locker.(lock.Owned); {
	case o.Do == orderTry:
		lease, err = a.locker.(lock.Tryer).TryAcquire(ctx, o.Name)
	case o.Do == orderShared:
		lease, err = a.locker.(lock.Sharer).AcquireShared(ctx, o.Name)
	case o.As != "" && ok:
		lease, err = owned.AcquireAs(ctx, o.Name, o.As)
	default:
		lease, err = a.locker.Acquire(ctx, o.Name)
	}
	switch {
	case err == nil:
		fenced, ok := lease.(lock.Fenced)
		if ok {
			out.Token = fenced.Token()
		}
		out.Deed = Granted
		if !a.hold(o.Key, lease, o.As != "") {
			a.log(Event{Deed: Granted, Key: o.Key, Token: out.Token, Fenced: ok, Shared: o.Do == orderShared})
		}
	case errors.Is(err, lock.ErrUncertain):
		out.Deed = Doubted
	case errors.Is(err, lock.ErrHeld), ctx.Err() != nil:
		out.Deed = Refused
	default:
		out.Deed = Failed
	}
	if err != nil {
		a.log(Event{Deed: out.Deed, Key: o.Key})
	}
	return out, err
}

// hold watches a lease by lock.Guard, as its holder should. It reports whether the owner
// has only re-entered: the key is its already.
func (a *acting) hold(key int, lease lock.Lease, named bool) (again bool) {
	guarded, stop := lock.Guard(context.Background(), lease)
	context.AfterFunc(guarded, func() {
		if errors.Is(context.Cause(guarded), lock.ErrLost) {
			a.log(Event{Deed: Warned, Key: key})
		}
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	again = named && len(a.held[key]) > 0
	a.held[key] = append(a.held[key], &holding{lease: lease, guarded: guarded, stop: stop})
	return again
}

// holding is the last hold of a key that was granted, and how many there are.
func (a *acting) holding(key int) (*holding, int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.held[key]
	if len(list) == 0 {
		return nil, 0, errors.New("it does not hold that key")
	}
	return list[len(list)-1], len(list), nil
}

// release gives back the last hold. The holder is outside when it begins to give back the
// only one that is left.
func (a *acting) release(o order) (Deed, error) {
	h, n, err := a.holding(o.Key)
	if err != nil {
		return Unfreed, err
	}
	h.stop()
	if n == 1 {
		a.log(Event{Deed: Left, Key: o.Key})
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(o.For, patience))
	defer cancel()
	err = h.lease.Release(ctx)
	a.mu.Lock()
	a.held[o.Key] = slices.DeleteFunc(a.held[o.Key], func(one *holding) bool { return one == h })
	a.mu.Unlock()
	deed := Released
	switch {
	case errors.Is(err, lock.ErrLost):
		deed = Lost
	case err != nil:
		deed = Unfreed
	}
	if n == 1 {
		a.log(Event{Deed: deed, Key: o.Key})
	}
	return deed, err
}

func (a *acting) extend(o order) (Deed, error) {
	h, _, err := a.holding(o.Key)
	if err != nil {
		return Failed, err
	}
	e, ok := h.lease.(lock.Extender)
	if !ok {
		return Failed, errors.New("its lease cannot be extended")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch err = e.Extend(ctx, o.For); {
	case err == nil:
		a.log(Event{Deed: Extended, Key: o.Key})
		return Extended, nil
	case errors.Is(err, lock.ErrLost):
		a.log(Event{Deed: Lost, Key: o.Key})
		return Lost, err
	}
	return Failed, err
}

// check looks at the guard and at the deadline, as a careful holder does before it
// writes. What it saw stands until it looks again: the holder may be stopped in between.
func (a *acting) check(o order) (bool, error) {
	h, _, err := a.holding(o.Key)
	if err != nil {
		return false, err
	}
	h.checked = h.guarded.Err() == nil
	if d, ok := h.lease.(lock.Deadliner); ok && h.checked {
		end := d.Deadline()
		h.checked = end.IsZero() || time.Now().Before(end)
	}
	return h.checked, nil
}

// write writes to what the key protects, whatever the guard said.
func (a *acting) write(o order) (bool, error) {
	h, _, err := a.holding(o.Key)
	if err != nil {
		return false, err
	}
	e := Event{Deed: Wrote, Key: o.Key, Guarded: h.checked}
	if f, ok := h.lease.(lock.Fenced); ok {
		e.Fenced, e.Token = true, f.Token()
		e.Taken = a.stage.resources[o.Key].take(a.me, e.Token)
	}
	a.log(e)
	return e.Taken, nil
}
