package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/lockbench/lockbench/harness/server"
)

// protocol is the version of what conductor and worker say to each other. A worker of
// another one is refused.
const protocol = 1

// patience is how long a worker may take to answer what needs no server.
const patience = 20 * time.Second

// partPatience is how long it may take over its part, which costs up to seconds of CPU
// time: where many others want the same processors that is minutes, and a finished run is
// not thrown away for them. A worker that has died is seen at once all the same.
const partPatience = 15 * patience

// A Crew is the processes in which the owners of the runs of one command live: each
// runs this program again, as [Work] says, and serves one run after the other. The zero
// value is ready; it starts a process when a run first needs it. A Crew serves one run
// at a time.
type Crew struct {
	// Program is what is started as a worker in the place of this program, with its
	// arguments: it speaks as PROTOCOL.md says. Nil is this program.
	Program []string
	// Commit is that of this program, "" if unknown. Only workers of the same serve.
	Commit string

	memory  *os.File
	workers []*process
}

// muster returns n workers, of which those that are missing are started, and memory that
// they share.
func (c *Crew) muster(ctx context.Context, n int) ([]*process, *os.File, error) {
	if c.memory == nil {
		memory, err := newMemory()
		if err != nil {
			return nil, nil, err
		}
		c.memory = memory
	}
	for len(c.workers) < n {
		c.workers = append(c.workers, nil)
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		if p := c.workers[i]; p != nil && p.alive() {
			continue
		}
		all.Go(func() { c.workers[i], errs[i] = c.hire(ctx) })
	}
	all.Wait()
	if err := firstOf(errs); err != nil {
		return nil, nil, fmt.Errorf("starting a worker: %w", err)
	}
	return c.workers[:n], c.memory, nil
}

// Close ends all workers and waits for their ends.
func (c *Crew) Close() error {
	for _, p := range c.workers {
		if p != nil {
			p.kill()
		}
	}
	c.workers = nil
	if c.memory == nil {
		return nil
	}
	err := c.memory.Close()
	c.memory = nil
	return err
}

// hire starts one worker and hears its greeting.
func (c *Crew) hire(ctx context.Context) (*process, error) {
	program := c.Program
	if program == nil {
		program = []string{"/proc/self/exe"} // what os.Executable names may have been built anew
	}
	p, err := spawn(program, c.memory)
	if err != nil {
		return nil, err
	}
	hello, err := p.receive(ctx, patience)
	switch {
	case err != nil:
	case hello.Protocol != protocol:
		err = fmt.Errorf("it speaks version %d of the protocol, and this program version %d", hello.Protocol, protocol)
	case c.Program == nil && cmp.Or(hello.Commit, c.Commit) != cmp.Or(c.Commit, hello.Commit):
		err = fmt.Errorf("it was built from %s, and this program from %s", hello.Commit, c.Commit)
	}
	if err != nil {
		p.kill()
		return nil, err
	}
	p.hello = hello
	return p, nil
}

// A process is one worker process.
type process struct {
	cmd     *exec.Cmd
	is      server.Process // zero if the system does not show it
	in      *os.File       // what it is told
	out     *os.File       // what it says
	answers chan answer
	stopped chan string   // the owner that was parked; nobody waits for it who is parked no more
	hello   answer        // its greeting
	leaving chan struct{} // closed when it is to end
	gone    chan struct{} // closed when it has ended
	err     error         // how; read it after gone
	garbled error         // what it said that could not be read; read it after it was heard out

	turn sync.Mutex // of who asks
	owed int        // answers that have not come; guarded by turn

	once  sync.Once  // closes leaving
	worn  bool       // it serves no further run
	mu    sync.Mutex // guards what follows, and writes to in
	ended chan struct{}
	op    func(operation) // what becomes of an operation that it reports
	acted func(acted)     // and of what an actor has done
}

// spawn starts program as a worker that finds memory as its file 4, and what it says in
// file 3: its standard output is for people, whatever a library prints there.
//
// Linux ends it when the *thread* that started it ends, so one goroutine keeps its
// thread. It has a process group of its own, or Ctrl-C would end it before the conductor
// could collect what it has measured.
func spawn(program []string, memory *os.File) (*process, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, childIn.Close(), in.Close())
	}
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = childIn, os.Stderr, os.Stderr
	cmd.ExtraFiles = []*os.File{childOut, memory}
	cmd.Env = append(os.Environ(), workEnv+"=1")
	cmd.SysProcAttr = workerAttr()
	p := &process{
		cmd: cmd, in: in, out: out, answers: make(chan answer), stopped: make(chan string, 1),
		leaving: make(chan struct{}), gone: make(chan struct{}), ended: make(chan struct{}),
	}
	started := make(chan error)
	heard := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil { // nobody has waited for it yet, so the id is its own
			p.is, _ = server.FindProcess(cmd.Process.Pid)
		}
		started <- err
		if err != nil {
			return
		}
		err = cmd.Wait()
		<-heard // what it said last
		if p.err = p.garbled; p.err == nil {
			p.err = died(cmd, err)
		}
		close(p.gone)
	}()
	err = <-started
	_, _ = childIn.Close(), childOut.Close() // they are the child's
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	go func() {
		defer close(heard)
		p.hear()
	}()
	return p, nil
}

// died says how the worker of cmd ended.
func died(cmd *exec.Cmd, err error) error {
	how := "exit status 0"
	if err != nil {
		how = err.Error()
	}
	return fmt.Errorf("its process %d has ended: %s", cmd.Process.Pid, how)
}

// hear takes down what the worker says, until it says nothing more.
func (p *process) hear() {
	d := json.NewDecoder(p.out)
	for {
		var a answer
		if err := d.Decode(&a); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, os.ErrClosed) {
				// It would wait for its next request, and who asks for its answer.
				p.garbled = fmt.Errorf("its process %d said what cannot be read: %w", p.cmd.Process.Pid, err)
				killGroup(p.cmd.Process)
			}
			return
		}
		switch {
		case a.Over:
			p.mu.Lock()
			close(p.ended)
			p.mu.Unlock()
		case a.Acted != nil:
			p.mu.Lock()
			f := p.acted
			p.mu.Unlock()
			if f != nil {
				f(*a.Acted)
			}
		case a.Parked != nil:
			who := "what no owner does"
			if a.Parked.Owner >= 0 {
				who = fmt.Sprintf("owner %d", a.Parked.Owner)
			}
			p.stopped <- who // one for each park
		case a.Op != nil:
			p.mu.Lock()
			if p.op != nil {
				p.op(*a.Op)
			}
			p.mu.Unlock()
		default:
			select {
			case p.answers <- a:
			case <-p.leaving: // nobody asks any more
			}
		}
	}
}

// onOp has f called, in one goroutine, for each operation that is reported from now on.
func (p *process) onOp(f func(operation)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.op = f
}

// onActed is onOp for what an actor does.
func (p *process) onActed(f func(acted)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acted = f
}

// system is the process as the system shows it.
func (p *process) system() server.Process { return p.is }

func (p *process) alive() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// kill ends the process, and returns when it has been waited for. It may be called again.
func (p *process) kill() {
	p.once.Do(func() { close(p.leaving) })
	if p.alive() {
		killGroup(p.cmd.Process) // which may end by itself just now
	}
	_, _ = p.in.Close(), p.out.Close() // or what it has started could keep us waiting for its last words
	<-p.gone
}

// ask sends a request and waits for its answer. Of those that ask at once one waits for
// the other.
func (p *process) ask(ctx context.Context, r request, bound time.Duration) (answer, error) {
	p.turn.Lock()
	defer p.turn.Unlock()
	if err := p.send(r); err != nil {
		return answer{}, err
	}
	p.owed++
	for {
		a, err := p.receive(ctx, bound)
		if err != nil {
			return answer{}, err // its answer may still come
		}
		if p.owed--; p.owed > 0 {
			continue // it was asked before, by somebody who waits no more
		}
		if a.Error != "" {
			err = errors.New(a.Error)
		}
		return a, err
	}
}

func (p *process) send(r request) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		select {
		case <-p.gone:
			return p.err
		case <-time.After(time.Second): // a broken pipe is seen before the end
			return fmt.Errorf("telling it to %s: %w", r.Do, err)
		}
	}
	return nil
}

// receive waits for an answer. What the process does is looked at only when half of the
// bound is over, since looking takes time itself.
func (p *process) receive(ctx context.Context, bound time.Duration) (answer, error) {
	a, came, err := p.within(ctx, bound/2)
	if came {
		return a, err
	}
	before := p.effort()
	if a, came, err = p.within(ctx, bound-bound/2); came {
		return a, err
	}
	return answer{}, fmt.Errorf("its process %d has not answered for %v%s", p.cmd.Process.Pid, bound, p.since(before))
}

// within waits for an answer, or what ends the wait for it, no longer than bound.
func (p *process) within(ctx context.Context, bound time.Duration) (a answer, came bool, err error) {
	late := time.NewTimer(bound)
	defer late.Stop()
	select {
	case a := <-p.answers:
		return a, true, nil
	case <-p.gone:
		return answer{}, true, p.err
	case <-ctx.Done():
		return answer{}, true, context.Cause(ctx)
	case <-late.C:
		return answer{}, false, nil
	}
}

// effort is what a process has had of the processors so far, and what it went without.
type effort struct {
	used, ready time.Duration
	ok          bool // the system tells
}

func (p *process) effort() effort {
	used, ok := p.is.CPU()
	ready, also := p.is.Ready()
	return effort{used, ready, ok && also}
}

// since says what p has done since before: it was busy, had to wait for a processor, waits
// for something else, or is stopped.
func (p *process) since(before effort) string {
	if p.is.Stopped() {
		return ": it is stopped"
	}
	now := p.effort()
	if !now.ok || !before.ok {
		return ""
	}
	const digits = 10 * time.Millisecond
	return fmt.Sprintf(", in the second half of which it used %v of CPU time and its threads stood ready for %v without any",
		(now.used - before.used).Round(digits), max(0, now.ready-before.ready).Round(digits))
}

// The rest makes a process a member.

func (p *process) prepare(ctx context.Context, spec Spec) (ready, error) {
	p.mu.Lock()
	p.ended = make(chan struct{})
	p.mu.Unlock()
	a, err := p.ask(ctx, request{Do: doPrepare, Spec: &spec}, patience+2*spec.Config.Timeout)
	if err != nil {
		return ready{}, err
	}
	if a.Ready == nil {
		return ready{}, errors.New("it answered without saying that it is ready")
	}
	return *a.Ready, nil
}

func (p *process) start(ctx context.Context, zero int64) error {
	_, err := p.ask(ctx, request{Do: doStart, Zero: zero}, patience)
	return err
}

func (p *process) cost(ctx context.Context) (Counts, error) {
	a, err := p.ask(ctx, request{Do: doCost}, patience)
	if err != nil {
		return Counts{}, err
	}
	if a.Counts == nil {
		return Counts{}, errors.New("it answered without saying what it has spent")
	}
	return *a.Counts, nil
}

func (p *process) quit() error {
	_, err := p.ask(context.Background(), request{Do: doQuit}, patience)
	return err
}

func (p *process) cut() error {
	_, err := p.ask(context.Background(), request{Do: doCut}, patience)
	return err
}

func (p *process) over() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

func (p *process) part(ctx context.Context) (Part, error) {
	a, err := p.ask(ctx, request{Do: doPart}, partPatience)
	if err != nil {
		return Part{}, err
	}
	if a.Part == nil {
		return Part{}, errors.New("it answered without its part")
	}
	p.worn = a.Worn
	return *a.Part, nil
}

func (p *process) fate() <-chan struct{} { return p.gone }

func (p *process) why() error { return p.err }

// The rest makes it what faults strike, see fault.Worker.

func (p *process) jump(ctx context.Context, d time.Duration) (before, after time.Duration, err error) {
	a, err := p.ask(ctx, request{Do: doJump, By: int64(d)}, patience)
	if err == nil && a.Jumped == nil {
		err = errors.New("it answered without saying what its clock is")
	}
	if err != nil {
		return 0, 0, err
	}
	return time.Duration(a.Jumped.Before), time.Duration(a.Jumped.After), nil
}

func (p *process) park(ctx context.Context, step string) (stopped <-chan string, err error) {
	_, err = p.ask(ctx, request{Do: doPark, Step: step}, patience)
	return p.stopped, err
}

func (p *process) proceed(ctx context.Context) (passed []string, err error) {
	a, err := p.ask(ctx, request{Do: doGo}, patience)
	select {
	case <-p.stopped: // nobody has waited for it
	default:
	}
	return a.Passed, err
}

// leave ends a process in which something of the run may still go on: the next run gets
// a new one.
func (p *process) leave(spoilt bool) {
	if spoilt || p.worn {
		p.kill()
	}
}
