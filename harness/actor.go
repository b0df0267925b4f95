package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// A Cast is the client processes of one scene: each a worker that does one thing at a time,
// as it is told, where those of a run play a load. What they do is on one log, in one order.
type Cast struct {
	crew   Crew
	stage  *stage
	memory []byte
	clock  clock
	list   []*Actor

	mu    sync.Mutex
	notes map[int64]string // by ticket
}

// NewCast is a cast without actors. Program and commit are as in a [Crew].
func NewCast(program []string, commit string) (*Cast, error) {
	memory, err := newMemory()
	if err != nil {
		return nil, err
	}
	c := &Cast{clock: newClock(), notes: map[int64]string{}}
	c.crew = Crew{Program: program, Commit: commit, memory: memory}
	if err := clearStage(memory); err != nil {
		return nil, errors.Join(fmt.Errorf("sizing the shared memory: %w", err), memory.Close())
	}
	if c.memory, err = mapFile(int(memory.Fd()), stageSize); err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	c.stage = (*stage)(unsafe.Pointer(&c.memory[0]))
	return c, nil
}

// Close ends all actors and waits for their ends. Events returns nothing any more.
func (c *Cast) Close() error {
	err := c.crew.Close()
	c.stage = nil
	return errors.Join(err, unmapFile(c.memory))
}

// Hire starts another actor, which has no client yet.
func (c *Cast) Hire(ctx context.Context) (*Actor, error) {
	p, err := c.crew.hire(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting a client process: %w", err)
	}
	c.crew.workers = append(c.crew.workers, p)
	a := &Actor{c: c, p: p, me: len(c.list), calls: map[int]chan acted{}}
	c.list = append(c.list, a)
	p.onActed(a.heard)
	return a, nil
}

// Now is the time since the cast was made, as events have it.
func (c *Cast) Now() time.Duration { return time.Duration(c.clock.now()) }

// Note adds what the driver did or saw to the log.
func (c *Cast) Note(format string, args ...any) { c.note(-1, Noted, fmt.Sprintf(format, args...)) }

func (c *Cast) note(actor int, d Deed, text string) {
	ticket := c.stage.add(Event{At: c.Now(), Actor: actor, Key: -1, Deed: d})
	if text == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes[ticket] = text
}

// Events are what happened so far, in order. The error says that some are missing: there
// was no room for all, or more places are empty than processes were killed, each of which
// may have left one behind.
func (c *Cast) Events() ([]Event, error) {
	if c.stage == nil {
		return nil, errors.New("the cast is closed")
	}
	list, gaps := c.stage.events()
	c.mu.Lock()
	defer c.mu.Unlock()
	killed := 0
	for i := range list {
		list[i].Note = c.notes[list[i].Ticket]
		if list[i].Deed == Killed {
			killed++
		}
	}
	if gaps > killed {
		return list, fmt.Errorf("%d events are missing from the log", gaps)
	}
	if n := c.stage.logged.Load(); n > maxEvents {
		return list, fmt.Errorf("%d events happened, and the log has room for %d", n, maxEvents)
	}
	return list, nil
}

// An Actor is one client process. Its methods tell it to begin something; they fail if the
// process has ended.
type Actor struct {
	c  *Cast
	p  *process
	me int

	talk  sync.Mutex // one order at a time
	mu    sync.Mutex
	last  int
	calls map[int]chan acted
}

// Me is the actor's number in events.
func (a *Actor) Me() int { return a.me }

// Process is the actor's process, the zero value if the system does not show it.
func (a *Actor) Process() server.Process { return a.p.system() }

func (a *Actor) heard(got acted) {
	a.mu.Lock()
	ch := a.calls[got.ID]
	a.mu.Unlock()
	if ch != nil {
		ch <- got // has room for all that one order says
	}
}

// tell sends o, and returns where its end is heard.
func (a *Actor) tell(o order) (*Call, error) {
	a.mu.Lock()
	a.last++
	o.ID = a.last
	ch := make(chan acted, 2)
	a.calls[o.ID] = ch
	a.mu.Unlock()
	a.talk.Lock()
	defer a.talk.Unlock()
	if _, err := a.p.ask(context.Background(), request{Do: doAct, Act: &o}, patience); err != nil {
		return nil, err
	}
	return &Call{a: a, id: o.ID, done: ch}, nil
}

// Open connects the actor's client of v to d. Offset is how far its wall clock is off.
func (a *Actor) Open(ctx context.Context, v lock.Variant, d lock.Deployment, c lock.Config, offset time.Duration) error {
	s := &Spec{Algo: v.Algo, Client: v.Client, Kind: d.Kind, Config: c, Workers: 1, Zero: a.c.clock.monotonic}
	for _, n := range d.Nodes {
		s.Nodes = append(s.Nodes, n.Reveal())
	}
	call, err := a.tell(order{Do: orderOpen, Actor: a.me, Spec: s, For: offset})
	if err != nil {
		return err
	}
	r, err := call.Wait(ctx)
	if err != nil {
		return err
	}
	if r.Err != "" {
		return fmt.Errorf("opening %s: %s", v.Name(), r.Err)
	}
	return nil
}

// A Target is a key of a scene: its number on the stage, and its name at the service.
type Target struct {
	Key  int
	Name string
	As   string // the owner's name; "" if owners have none
}

// Acquire begins to wait for the key, at most for bound; 0 is for ever.
func (a *Actor) Acquire(k Target, bound time.Duration) (*Call, error) {
	return a.tell(order{Do: orderAcquire, Key: k.Key, Name: k.Name, As: k.As, For: bound})
}

// AcquireShared is Acquire as a reader.
func (a *Actor) AcquireShared(k Target, bound time.Duration) (*Call, error) {
	return a.tell(order{Do: orderShared, Key: k.Key, Name: k.Name, For: bound})
}

// Try asks for the key once.
func (a *Actor) Try(k Target) (*Call, error) {
	return a.tell(order{Do: orderTry, Key: k.Key, Name: k.Name})
}

// Release ends the actor's hold of the key, and calls Release.
func (a *Actor) Release(k Target) (*Call, error) { return a.tell(order{Do: orderRelease, Key: k.Key}) }

// Extend extends the lease of the key.
func (a *Actor) Extend(k Target, ttl time.Duration) (*Call, error) {
	return a.tell(order{Do: orderExtend, Key: k.Key, For: ttl})
}

// Check has the holder look at its Guard and its deadline; the call's Yes tells that
// neither has ended.
func (a *Actor) Check(k Target) (*Call, error) { return a.tell(order{Do: orderCheck, Key: k.Key}) }

// Write has the holder write, whatever the last Check said; the call's Yes tells that a
// fenced resource took it.
func (a *Actor) Write(k Target) (*Call, error) { return a.tell(order{Do: orderWrite, Key: k.Key}) }

// Switch has the actor's client move to the named engine.
func (a *Actor) Switch(engine string) (*Call, error) {
	return a.tell(order{Do: orderSwitch, Peer: engine})
}

// Park stops the actor where it next comes to the step of its algorithm, after it has
// passed it skip times. The call is done when it stands there.
func (a *Actor) Park(step string, skip int) (*Call, error) {
	return a.tell(order{Do: orderPark, Step: step, Skip: skip})
}

// Go lets the actor go on that stands where parked said.
func (a *Actor) Go(parked *Call) error {
	_, err := a.tell(order{Do: orderGo, Key: parked.id})
	return err
}

// Clock sets how far the wall clock of the actor's client is off.
func (a *Actor) Clock(offset time.Duration) error {
	_, err := a.tell(order{Do: orderClock, For: offset})
	return err
}

// Steps are the steps of the algorithm that the actor has passed since the last call.
func (a *Actor) Steps(ctx context.Context) ([]string, error) {
	call, err := a.tell(order{Do: orderSteps})
	if err != nil {
		return nil, err
	}
	r, err := call.Wait(ctx)
	return r.Steps, err
}

// CloseClient closes the actor's client, as a process does that ends in good order.
func (a *Actor) CloseClient(ctx context.Context) error {
	call, err := a.tell(order{Do: orderClose})
	if err != nil {
		return err
	}
	_, err = call.Wait(ctx)
	return err
}

// Kill kills the process, and returns when it has ended.
func (a *Actor) Kill() error {
	a.p.kill()
	a.c.note(a.me, Killed, "")
	return nil
}

// Alive tells that the process has not ended.
func (a *Actor) Alive() bool { return a.p.alive() }

// Stopped and Continued note what the driver did to the process.
func (a *Actor) Stopped() { a.c.note(a.me, Stopped, "") }

// Continued see Stopped.
func (a *Actor) Continued() { a.c.note(a.me, Continued, "") }

// A Call is something that an actor was told to do.
type Call struct {
	a    *Actor
	id   int
	done chan acted
	got  *Result
}

// A Result is how a Call ended.
type Result struct {
	Deed  Deed
	Err   string // in the words of the lock; "" is none
	Yes   bool   // of Check and Write
	Token uint64
	Steps []string
	Step  string // of Park
}

// Wait returns when the call is done. The error says that it is not: ctx has ended, or
// the process.
func (c *Call) Wait(ctx context.Context) (Result, error) {
	if c.got != nil {
		return *c.got, nil
	}
	select {
	case got := <-c.done:
		return c.keep(got), nil
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	case <-c.a.p.gone:
		select {
		case got := <-c.done:
			return c.keep(got), nil
		default:
			return Result{}, c.a.p.err
		}
	}
}

func (c *Call) keep(got acted) Result {
	c.got = &Result{
		Deed: got.Deed, Err: strings.ReplaceAll(got.Error, "\n", "; "), Yes: got.Yes, Token: got.Token, Steps: got.Steps, Step: got.Step,
	}
	return *c.got
}

// Within waits at most d, and reports whether the call was done by then.
func (c *Call) Within(ctx context.Context, d time.Duration) (Result, bool, error) {
	bounded, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	r, err := c.Wait(bounded)
	switch {
	case err == nil:
		return r, true, nil
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return r, false, nil
	}
	return r, false, err
}
