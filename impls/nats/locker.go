package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockbench/lockbench/impls/lock"
)

// errSlow says that it is a time-out, as those of a connection do.
var errSlow = fmt.Errorf("no answer in time: %w", os.ErrDeadlineExceeded)

// locker is one client: a connection, over which all requests and watches go side by side.
type locker struct {
	c      lock.Config
	ttl    time.Duration // of a key: whole seconds
	where  string
	conn   *nats.Conn
	js     jetstream.JetStream
	bucket string
	stream jetstream.StreamConfig // of the bucket
	keeper lock.Keeper
	queues lock.Queues
	ears   ears
	done   chan struct{} // closed by Close
	calls  sync.WaitGroup

	viewing sync.Mutex
	kv      jetstream.KeyValue // nil before the first watch

	mu     sync.Mutex
	down   chan struct{} // closed, and replaced, when nobody could be reached for Config.Timeout
	timer  *time.Timer   // until then; nil while there is a connection
	closed bool
}

// markers is how long what is left of a key that was freed is there.
const markers = 30 * time.Second

// replicas is how many servers of an ensemble hold a bucket.
const replicas = 3

func open(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
	if len(d.Nodes) != 1 {
		return nil, fmt.Errorf("nats: there are %d addresses, and one is needed (which may have several hosts)", len(d.Nodes))
	}
	c, err := c.Checked(lock.MaxTTL) // NATS takes more: an int64 of ns
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	l := &locker{ // NATS counts a TTL in whole seconds
		c: c, ttl: time.Duration(lock.Units(c.TTL, time.Second)) * time.Second, where: d.Nodes[0].String(), done: make(chan struct{}), down: make(chan struct{}),
		bucket: bucketOf(c.Group),
	}
	l.stream = jetstream.StreamConfig{
		Name: "KV_" + l.bucket, Subjects: []string{"$KV." + l.bucket + ".>"}, Description: "locks of lockbench",
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DenyDelete: true, AllowRollup: true, AllowDirect: true,
		AllowMsgTTL: true, SubjectDeleteMarkerTTL: markers,
	}
	if d.Nodes[0].Topology() == lock.Ensemble {
		l.stream.Replicas = replicas
	}

	if l.conn, err = l.dial(ctx, d.Nodes[0]); err != nil {
		return nil, fmt.Errorf("nats: %s cannot be reached: %w", l.where, oneLine(err))
	}
	l.js, err = jetstream.New(l.conn)
	if err == nil {
		err = l.ensure(ctx)
	}
	if err != nil {
		l.conn.Close()
		return nil, fmt.Errorf("nats: %s has no bucket %s for locks: %w", l.where, l.bucket, oneLine(plain(err)))
	}
	l.ears.open = l.watch
	return l, nil
}

// gathering bounds the making of a bucket: the servers that are to hold it may need some
// rounds to agree on their leader, each of 4 to 9 s.
const gathering = 30 * time.Second

// ensure finds the bucket, or makes it: a stream as the client library makes one for it,
// by one request in the place of three. While it has no leader nobody answers, and of
// several clients that make it at once a cluster may answer one alone.
func (l *locker) ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, gathering)
	defer cancel()
	for {
		short, cancel := context.WithTimeout(ctx, l.c.Timeout/2)
		l.c.Count.Cmd()
		s, err := l.js.Stream(short, l.stream.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			l.c.Count.Cmd()
			s, err = l.js.CreateStream(short, l.stream)
		}
		cancel()
		switch {
		case err == nil && s.CachedInfo().Config.SubjectDeleteMarkerTTL == 0:
			return fmt.Errorf("there is one whose keys cannot have a TTL, of which locks need one; make it with a LimitMarkerTTL, such as %s", markers)
		case err == nil, ctx.Err() != nil, l.conn.IsClosed():
			return err
		case slow(err), errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
		default:
			return err
		}
	}
}

// An entry is what a key was at one moment. The zero value is a key that is not there.
type entry struct {
	rev   uint64
	held  bool   // by owner, else it is the marker of a key that owner freed, or whose lease ended
	owner string // "" where only a watch told of it
}

func (l *locker) subject(key string) string { return "$KV." + l.bucket + "." + escape(key) }

// write makes key owner's for the time of a lease, if its last revision is rev, 0 if it is
// not there. It returns the new revision.
func (l *locker) write(ctx context.Context, key, owner string, rev uint64) (uint64, error) {
	return l.publish(ctx, &nats.Msg{Subject: l.subject(key), Data: []byte(owner), Header: nats.Header{}}, rev, l.ttl)
}

// remove frees key if its last revision is rev, and returns that of the marker, which
// names owner, so that this one knows it again.
//
// Of the two markers that the client library writes it is that of a purge: the other does
// not end.
func (l *locker) remove(ctx context.Context, key, owner string, rev uint64) (uint64, error) {
	m := &nats.Msg{Subject: l.subject(key), Data: []byte(owner), Header: nats.Header{}}
	m.Header.Set("KV-Operation", "PURGE")
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	marker, err := l.publish(ctx, m, rev, markers)
	if err == nil {
		l.ears.told(key, entry{rev: marker})
	}
	return marker, err
}

// publish sends m until a server takes it or refuses it: while a stream has no leader
// nobody does, and nothing is sent without a connection. A bucket that is gone is made
// again.
func (l *locker) publish(ctx context.Context, m *nats.Msg, rev uint64, ttl time.Duration) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.c.Timeout)
	defer cancel()
	for {
		l.c.Count.Cmd()
		ack, err := l.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(rev), jetstream.WithMsgTTL(ttl), jetstream.WithRetryAttempts(0))
		if err == nil {
			return ack.Sequence, nil
		}
		switch {
		case errors.Is(err, nats.ErrReconnectBufExceeded): // there is no connection
		case errors.Is(err, jetstream.ErrNoStreamResponse):
			_ = l.ensure(ctx) // the next answer tells whether it helped
		default:
			return 0, err
		}
		select {
		case <-time.After(l.c.Retry.Max):
		case <-ctx.Done():
			return 0, err
		case <-l.done:
			return 0, err
		}
	}
}

// read returns the last entry of key. Of a bucket that was made a moment ago the server that
// is asked may know nothing yet, and one that is gone is made again.
func (l *locker) read(ctx context.Context, key string) (e entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.c.Timeout)
	defer cancel()
	for {
		e, err = l.last(ctx, key)
		var unknown *jetstream.APIError
		if !errors.As(err, &unknown) || unknown.ErrorCode != jetstream.JSErrCodeStreamNotFound {
			return e, err
		}
		_ = l.ensure(ctx) // the next answer tells whether it helped
		select {
		case <-time.After(l.c.Retry.Max):
		case <-ctx.Done():
			return entry{}, fmt.Errorf("nats: %s does not tell who holds the key: %w", l.where, errSlow)
		case <-l.done:
			return entry{}, lock.ErrClosed
		}
	}
}

// last asks the leader of the stream for the last entry of key. What a direct get reads may
// be older than what others know already.
func (l *locker) last(ctx context.Context, key string) (entry, error) {
	ask, err := json.Marshal(map[string]string{"last_by_subj": l.subject(key)})
	if err != nil {
		return entry{}, err
	}
	l.c.Count.Cmd()
	m, err := l.conn.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET.KV_"+l.bucket, ask)
	if err != nil {
		return entry{}, fmt.Errorf("nats: %s does not tell who holds the key: %w", l.where, plain(err))
	}
	var answer struct {
		Message struct {
			Seq  uint64
			Hdrs []byte
			Data []byte
		}
		Error *jetstream.APIError
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return entry{}, fmt.Errorf("nats: %s answers %q: %w", l.where, m.Data, err)
	}
	switch e := answer.Error; {
	case e == nil:
	case e.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return entry{}, nil
	default:
		return entry{}, fmt.Errorf("nats: %s does not tell who holds the key: %w", l.where, e)
	}
	hdrs := string(answer.Message.Hdrs)
	freed := strings.Contains(hdrs, "KV-Operation:") || strings.Contains(hdrs, jetstream.MarkerReasonHeader+":")
	return entry{rev: answer.Message.Seq, held: !freed, owner: string(answer.Message.Data)}, nil
}

// conflict reports whether err says that the last revision is another one. A stream with
// replicas says it in another way than one without.
func conflict(err error) bool {
	var e *jetstream.APIError
	return errors.As(err, &e) && (e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// refused reports whether err proves that nothing was written.
func refused(err error) bool {
	var e *jetstream.APIError
	return errors.As(err, &e) || errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrConnectionClosed) ||
		errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrMaxPayload)
}

// slow reports whether err says that no answer came in time.
func slow(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}

// plain is err without the context of one request, which is none of the caller's.
func plain(err error) error {
	switch {
	case slow(err):
		return errSlow
	case errors.Is(err, context.Canceled), errors.Is(err, nats.ErrConnectionClosed):
		return lock.ErrClosed
	}
	return err
}

// oneLine is err, whose text the library may have broken.
func oneLine(err error) error {
	text := err.Error()
	if !strings.ContainsAny(text, "\r\n") {
		return err
	}
	return errors.New(strings.Join(strings.Fields(text), " "))
}

// enter counts a call until l.calls.Done.
func (l *locker) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return lock.ErrClosed
	}
	l.calls.Add(1)
	return nil
}

// Close implements lock.Locker.
func (l *locker) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	close(l.done)
	l.calls.Wait()
	l.keeper.Close()
	l.ears.close()
	l.conn.Close()
	l.connected()
	return nil
}
