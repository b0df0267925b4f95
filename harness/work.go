package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// workEnv is the setting of the environment that makes a worker of a program that calls
// Work.
const workEnv = "LOCKBENCH_WORKER"

// What a worker is told to do, see PROTOCOL.md.
const (
	doPrepare = "prepare"
	doStart   = "start"
	doCost    = "cost"
	doQuit    = "quit"
	doCut     = "cut"
	doPart    = "part"
	doJump    = "jump"
	doPark    = "park"
	doGo      = "go"
	doAct     = "act"
)

// A request is one line to a worker.
type request struct {
	Do   string `json:"do"`
	Spec *Spec  `json:"spec,omitempty"`
	Zero int64  `json:"zero_ns,omitempty"` // with start: when an open loop begins, see worker.start
	Act  *order `json:"act,omitempty"`     // with act
	By   int64  `json:"by_ns,omitempty"`   // with jump: how far
	Step string `json:"step,omitempty"`    // with park: where
}

// An answer is one line of a worker: its greeting, the answer to a request, or what it
// says by itself.
type answer struct {
	Protocol int    `json:"protocol,omitempty"` // greeting
	Commit   string `json:"commit,omitempty"`   // greeting
	Reports  string `json:"reports,omitempty"`  // greeting of a worker in another language: reportsOperations

	Error  string   `json:"error,omitempty"`  // to any request: it could not be done
	Ready  *ready   `json:"ready,omitempty"`  // to prepare
	Counts *Counts  `json:"cost,omitempty"`   // to cost
	Jumped *jumped  `json:"clock,omitempty"`  // to jump
	Passed []string `json:"passed,omitempty"` // to go: names of the steps that owners came to since park
	Part   *Part    `json:"part,omitempty"`   // to part
	Worn   bool     `json:"worn,omitempty"`   // to part: the lock has left something running, so that no other run should follow here

	Over   bool       `json:"over,omitempty"`   // by itself: all its owners have come to their end
	Parked *parked    `json:"parked,omitempty"` // by itself: an owner has stopped where park says
	Op     *operation `json:"op,omitempty"`     // by itself: an operation, see PROTOCOL.md
	Acted  *acted     `json:"acted,omitempty"`  // by itself: an order to an actor is carried out
}

// jumped is how far the wall clock of a worker's locks was ahead before a jump and is after,
// in ns, as they read it.
type jumped struct {
	Before int64 `json:"before_ns"`
	After  int64 `json:"after_ns"`
}

// Work returns at once, unless this process was started to be a worker of a [Crew]; then
// it plays owners of the variants among all until it is told nothing more, and does not
// return. Commit is that of the program, "" if unknown. The first statements of main, and
// of TestMain, call it, before anything reads the arguments or writes to a file.
func Work(all []lock.Variant, commit string) {
	if os.Getenv(workEnv) == "" || !processes {
		return
	}
	_ = os.Unsetenv(workEnv) // what it starts is no worker
	s := &service{all: all, memory: os.NewFile(4, "memory"), out: json.NewEncoder(os.NewFile(3, "answers"))}
	s.say(answer{Protocol: protocol, Commit: commit})
	if err := s.serve(os.Stdin); !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "lockbench worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A service is a worker process, which plays one run after the other.
type service struct {
	all    []lock.Variant
	memory *os.File

	mu  sync.Mutex // guards out
	out *json.Encoder

	worker  *worker // of the run under way, nil between runs
	acting  *acting // nil unless it is an actor
	resting int     // goroutines between runs, once the first has ended
}

// say writes one line. If nobody hears it, the end of the requests follows.
func (s *service) say(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.Encode(a); err != nil {
		_ = s.out.Encode(answer{Error: err.Error()}) // who asks would wait for it else
	}
}

// serve does what it is told, until the lines end.
func (s *service) serve(in io.Reader) error {
	for d := json.NewDecoder(in); ; {
		var r request
		if err := d.Decode(&r); err != nil {
			return err
		}
		a, err := s.do(r)
		if err != nil {
			a.Error = err.Error()
		}
		s.say(a)
	}
}

func (s *service) do(r request) (a answer, err error) {
	if r.Do == doAct && s.worker == nil {
		return a, s.act(r.Act)
	}
	if (r.Do == doPrepare) != (s.worker == nil) {
		return a, fmt.Errorf("it was told to %s at the wrong time", r.Do)
	}
	switch r.Do {
	case doPrepare:
		a.Ready, err = s.prepare(r.Spec)
	case doStart:
		w := s.worker
		w.start(context.Background(), r.Zero)
		go func() {
			<-w.over
			s.say(answer{Over: true})
		}()
	case doCost:
		c := s.worker.spent()
		a.Counts = &c
	case doQuit:
		s.worker.quit()
	case doCut:
		s.worker.cut()
	case doJump:
		j := s.worker.jump(time.Duration(r.By))
		a.Jumped = &j
	case doPark:
		err = s.worker.parking.park(r.Step, func(p parked) { s.say(answer{Parked: &p}) })
	case doGo:
		a.Passed, err = s.worker.parking.proceed()
	case doPart:
		a.Part, a.Worn, err = s.part()
	default:
		err = fmt.Errorf("it was told to %q, which it does not know", r.Do)
	}
	return a, err
}

// act begins what an actor is told.
func (s *service) act(o *order) (err error) {
	if o == nil {
		return errors.New("it was told to act without an order")
	}
	if s.acting == nil {
		if s.acting, err = newActing(s.memory, func(a acted) { s.say(answer{Acted: &a}) }); err != nil {
			return err
		}
	}
	return s.acting.do(s.all, *o)
}

func (s *service) prepare(spec *Spec) (*ready, error) {
	if spec == nil {
		return nil, errors.New("it was told to prepare without a spec")
	}
	v, err := spec.pick(s.all)
	if err != nil {
		return nil, err
	}
	b, err := mapBoard(s.memory, spec.Load)
	if err != nil {
		return nil, err
	}
	w := newWorker(*spec, v, b, clockFrom(spec.Zero))
	ctx, cancel := context.WithTimeout(context.Background(), patience+spec.Config.Timeout)
	defer cancel()
	r, err := w.open(ctx)
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	s.worker = w
	return &r, nil
}

// part ends the run. What a lock has left running would cost the next run time, and may
// touch memory that is about to be unmapped, so that a worker with more goroutines than
// after its first run is of no further use.
func (s *service) part() (part *Part, worn bool, err error) {
	w := s.worker
	s.worker = nil
	p, err := w.part()
	if err != nil {
		return nil, true, err
	}
	now := runtime.NumGoroutine()
	for end := time.Now().Add(time.Second); s.resting > 0 && now > s.resting && time.Now().Before(end); now = runtime.NumGoroutine() {
		time.Sleep(5 * time.Millisecond)
	}
	if s.resting == 0 {
		s.resting = now + 8 // libraries keep some of their own
	}
	if now > s.resting {
		return &p, true, nil
	}
	return &p, false, w.board.close()
}
