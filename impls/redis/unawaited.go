package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A Batcher is the Conn that can send several commands at once.
type Batcher interface {
	// Batch writes the commands one after the other on one connection, before
	// it reads an answer. The server runs them in this order, each whatever
	// became of the others. The answers are those that Do would have returned.
	Batch(ctx context.Context, commands [][]any) []Answer
}

// An Answer is what Do returns for one command.
type Answer struct {
	Reply any
	Err   error
}

// late sends the releases that nobody waits for (Config.Unawaited).
//
// A release goes out as soon as a goroutine gets to it, together with those that
// came meanwhile. The next command that wants the same key must not overtake it,
// and takes it along if it has not left yet: both travel in one write, and the
// owner who comes back soon pays one round trip where an awaited release makes
// two. If it has left, that command waits for its answer first.
//
// While each release is taken along like that, to start a goroutine for the next
// would only be in the way: it lingers instead. The first that lingers in vain
// goes out late, by at most a few milliseconds, and the next ones at once again.
type late struct {
	conn  Conn
	batch Batcher
	c     lock.Config

	mu      sync.Mutex
	closed  bool
	queue   []*farewell          // not sent yet, in their order
	last    map[string]*farewell // by key: without an answer yet
	sending bool                 // send runs, or will when linger is over
	taken   bool                 // the last release was taken along
	known   map[*Script]bool     // that the server has run
	timer   *time.Timer          // nil before the first linger
	running sync.WaitGroup       // Add only under mu and before closed
}

// A farewell is one release.
type farewell struct {
	key     string
	script  *Script // that the command runs by its digest; nil if it is none
	command []any
	then    func()    // once it is answered
	before  *farewell // the one of this key before it, while that has no answer; under late.mu
	done    chan struct{}
}

// maxBatch bounds what is written without reading, so that neither side's
// buffers fill up.
const maxBatch = 256

func newLate(conn Conn, c lock.Config) (*late, error) {
	b, ok := conn.(Batcher)
	if !ok {
		return nil, errors.New("redis: an unawaited release needs a client library that sends several commands at once")
	}
	return &late{conn: conn, batch: b, c: c, last: make(map[string]*farewell), known: make(map[*Script]bool)}, nil
}

// add hands f over. An error proves that it will not be sent.
func (l *late) add(ctx context.Context, f *farewell) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsent, err)
	}
	f.done = make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	// A digest that the server does not know would let the next command overtake.
	// So the first goes in full; should the server forget it later, the next
	// command finds the key held once more.
	if f.script != nil && !l.known[f.script] {
		f.command[0], f.command[1] = "EVAL", f.script.source
	}
	f.before = l.last[f.key] // of another hold of a re-entrant lock
	l.queue = append(l.queue, f)
	l.last[f.key] = f
	if l.sending {
		return nil
	}
	l.sending = true
	switch {
	case !l.taken:
		l.running.Go(l.send)
	case l.timer == nil:
		l.running.Add(1)
		l.timer = time.AfterFunc(linger, func() {
			defer l.running.Done()
			l.send()
		})
	default:
		l.running.Add(1)
		l.timer.Reset(linger)
	}
	return nil
}

// linger is how long a release waits to be taken along.
const linger = time.Millisecond

// send empties the queue.
func (l *late) send() {
	for {
		l.mu.Lock()
		n := min(len(l.queue), maxBatch)
		part := l.queue[:n:n]
		if l.queue = l.queue[n:]; n == 0 {
			l.queue, l.sending = nil, false
			l.mu.Unlock()
			return
		}
		l.taken = false
		l.mu.Unlock()
		commands := make([][]any, n)
		for i, f := range part {
			commands[i] = f.command
		}
		for i, a := range l.batch.Batch(context.Background(), commands) {
			l.settle(part[i], a)
		}
	}
}

// do is Conn.Do of a command that wants key: it runs after the release of key.
func (l *late) do(ctx context.Context, key string, args ...any) (any, error) {
	l.mu.Lock()
	f := l.last[key]
	if f == nil {
		l.mu.Unlock()
		return l.conn.Do(ctx, args...)
	}
	i := slices.Index(l.queue, f)
	if i < 0 || l.closed || f.before != nil {
		var all []*farewell
		for g := f; g != nil; g = g.before {
			all = append(all, g)
		}
		l.mu.Unlock()
		for _, g := range all {
			<-g.done // Timeout bounds it
		}
		return l.conn.Do(ctx, args...)
	}
	l.queue, l.taken = slices.Delete(l.queue, i, i+1), true
	l.running.Add(1)
	defer l.running.Done()
	l.mu.Unlock()
	answers := l.batch.Batch(ctx, [][]any{f.command, args})
	l.settle(f, answers[0])
	return answers[1].Reply, answers[1].Err
}

// settle takes the answer to f. Nobody waits for it, so what did not free the
// key is counted.
func (l *late) settle(f *farewell, a Answer) {
	if f.script != nil && unknownScript(a.Err) { // nothing ran
		again := slices.Clone(f.command)
		again[0], again[1] = "EVAL", f.script.source
		a.Reply, a.Err = l.conn.Do(context.Background(), again...)
	}
	if a.Err != nil || !one(a.Reply) {
		l.c.Count.Miss()
	}
	l.mu.Lock()
	l.known[f.script] = a.Err == nil
	f.before = nil // it travelled no later, and would keep a chain alive
	if l.last[f.key] == f {
		delete(l.last, f.key)
	}
	l.mu.Unlock()
	f.then()
	close(f.done)
}

// drain waits for the answers to what was handed over before.
func (l *late) drain() {
	l.mu.Lock()
	var all []*farewell
	for _, f := range l.last {
		all = append(all, f)
	}
	l.mu.Unlock()
	for _, f := range all {
		<-f.done
	}
}

// close refuses what comes, and waits for what was handed over.
func (l *late) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.running.Wait()
}

// doNext is do for a command that takes key: it does not overtake an unawaited
// release of key.
func (s *session) doNext(ctx context.Context, name, key string, args ...any) (any, error) {
	if s.late == nil {
		return s.do(ctx, name, args...)
	}
	return s.step(ctx, name, func() (any, error) { return s.late.do(ctx, key, args...) })
}

// evalNext is eval for a script that takes keys[0].
func (s *session) evalNext(ctx context.Context, name string, script *Script, keys []string, args ...any) (any, error) {
	if s.late == nil {
		return s.eval(ctx, name, script, keys, args...)
	}
	return s.step(ctx, name, func() (any, error) {
		return script.run(ctx, func(ctx context.Context, args ...any) (any, error) {
			return s.late.do(ctx, keys[0], args...)
		}, script.command(keys, args...))
	})
}

// release frees key by a command, that of script unless it is nil, which must
// answer 1 if it did. With Config.Unawaited it only hands the command over. Then
// is called once there is an answer, or there will be none; it may be nil. The
// step is "release".
func (s *session) release(ctx context.Context, key string, script *Script, command []any, then func()) error {
	return s.releaseBy(ctx, s.conn.Do, key, script, command, then)
}

// releaseBy is release by another do than the Conn's, where the answer is waited
// for.
func (s *session) releaseBy(ctx context.Context, do func(context.Context, ...any) (any, error), key string, script *Script, command []any, then func()) error {
	if then == nil {
		then = func() {}
	}
	if s.late != nil {
		_, err := s.step(ctx, "release", func() (any, error) {
			return nil, s.late.add(ctx, &farewell{key: key, script: script, command: command, then: then})
		})
		return err
	}
	reply, err := s.step(ctx, "release", func() (any, error) {
		if script != nil {
			return script.run(ctx, do, command)
		}
		return do(ctx, command...)
	})
	then()
	return freed(reply, err)
}
