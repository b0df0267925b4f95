package locktest

import (
	"context"
	"encoding/gob"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A service is a small, correct lock service of its own, behind TCP: what the
// suite is tried on. Its clients (model_test.go) are what may be broken.
type service struct {
	ln net.Listener
	wg sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	keys   map[string]*entry
	tokens map[string]uint64
	asleep map[string][]string // key and condition → owners
	awake  map[string]bool     // owners that were signalled
	queue  map[string][]place  // key → owners in the order of arrival, of fair clients
}

// entry is one held key.
type entry struct {
	shared bool
	value  string // of an optimistic client
	owners map[string]*share
}

// share is what one owner has of a key.
type share struct {
	count int
	until time.Time // zero without end
}

// place is an owner's place in a queue, which it keeps by asking.
type place struct {
	owner string
	asked time.Time
}

// A request is one command; what it does not name has no part in it.
type request struct {
	Op     string
	Keys   []string
	Owner  string
	Cond   string
	TTL    time.Duration
	Shared bool
	Blind  bool // take: although it is held; free and renew: whoever holds it
	All    bool // signal: everybody
	Value  string

	began time.Time // of the wait; not sent
}

type answer struct {
	OK    bool
	Token uint64
	Owner string
	TTL   time.Duration
	Value string
	Names []string
}

func newService(t *testing.T) *service {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{
		ln: ln, conns: map[net.Conn]bool{}, keys: map[string]*entry{}, tokens: map[string]uint64{},
		asleep: map[string][]string{}, awake: map[string]bool{}, queue: map[string][]place{},
	}
	s.wg.Go(s.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		s.mu.Lock()
		for c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *service) accept() {
	for {
		c, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = true
		s.mu.Unlock()
		s.wg.Go(func() { s.serve(c) })
	}
}

func (s *service) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	in, out := gob.NewDecoder(c), gob.NewEncoder(c)
	for {
		var q request
		if in.Decode(&q) != nil {
			return
		}
		s.mu.Lock()
		a := s.do(q)
		s.mu.Unlock()
		if out.Encode(a) != nil {
			return
		}
	}
}

// entry returns what is alive of key, or nil.
func (s *service) entry(key string) *entry {
	e := s.keys[key]
	if e == nil {
		return nil
	}
	for owner, x := range e.owners {
		if !x.until.IsZero() && !time.Now().Before(x.until) {
			delete(e.owners, owner)
		}
	}
	if len(e.owners) == 0 {
		delete(s.keys, key)
		return nil
	}
	return e
}

func end(ttl time.Duration) time.Time {
	if ttl <= 0 {
		return time.Time{}
	}
	return time.Now().Add(ttl)
}

func (s *service) do(q request) answer {
	switch q.Op {
	case "take":
		for _, k := range q.Keys {
			e := s.entry(k)
			if e != nil && e.owners[q.Owner] == nil && (!e.shared || !q.Shared) && !q.Blind {
				return answer{}
			}
		}
		for _, k := range q.Keys {
			s.tokens[k]++
			e := s.keys[k]
			if e == nil {
				e = &entry{owners: map[string]*share{}}
				s.keys[k] = e
			}
			e.shared, e.value = q.Shared && (len(e.owners) == 0 || e.shared), q.Value
			if e.owners[q.Owner] == nil {
				e.owners[q.Owner] = &share{}
			}
			e.owners[q.Owner].count++
			e.owners[q.Owner].until = end(q.TTL)
		}
		return answer{OK: true, Token: s.tokens[q.Keys[0]]}
	case "line": // joins the queue of a key, and takes it when it is at its head
		k := q.Keys[0]
		list := slices.DeleteFunc(s.queue[k], func(p place) bool { return time.Since(p.asked) > time.Second && p.owner != q.Owner })
		at := slices.IndexFunc(list, func(p place) bool { return p.owner == q.Owner })
		if at < 0 {
			at = len(list)
			list = append(list, place{owner: q.Owner})
		}
		list[at].asked = time.Now()
		s.queue[k] = list
		if at > 0 {
			return answer{}
		}
		q.Op = "take"
		a := s.do(q)
		if a.OK {
			s.queue[k] = s.queue[k][1:]
		}
		return a
	case "leave":
		k := q.Keys[0]
		s.queue[k] = slices.DeleteFunc(s.queue[k], func(p place) bool { return p.owner == q.Owner })
		return answer{OK: true}
	case "free":
		return s.free(q)
	case "renew":
		for _, k := range q.Keys {
			e := s.entry(k)
			if e == nil || e.owners[q.Owner] == nil && !q.Blind {
				return answer{}
			}
			for owner, x := range e.owners {
				if owner == q.Owner || q.Blind {
					x.until = end(q.TTL)
				}
			}
		}
		return answer{OK: true}
	case "look":
		e := s.entry(q.Keys[0])
		if e == nil {
			return answer{}
		}
		for owner, x := range e.owners {
			return answer{OK: true, Owner: owner, TTL: time.Until(x.until), Value: e.value}
		}
	case "sleep":
		if a := s.free(q); !a.OK {
			return a
		}
		name := q.Keys[0] + "\x00" + q.Cond
		s.asleep[name] = append(s.asleep[name], q.Owner)
		return answer{OK: true}
	case "signal":
		name := q.Keys[0] + "\x00" + q.Cond
		n := min(1, len(s.asleep[name]))
		if q.All {
			n = len(s.asleep[name])
		}
		for _, o := range s.asleep[name][:n] {
			s.awake[o] = true
		}
		s.asleep[name] = s.asleep[name][n:]
		return answer{OK: true}
	case "awake":
		return answer{OK: s.awake[q.Owner]}
	case "ping":
		return answer{OK: true}
	}
	return answer{}
}

func (s *service) free(q request) answer {
	for _, k := range q.Keys {
		if e := s.entry(k); e == nil || e.owners[q.Owner] == nil && !q.Blind {
			return answer{}
		}
	}
	for _, k := range q.Keys {
		e := s.keys[k]
		if q.Blind {
			delete(s.keys, k)
			continue
		}
		if x := e.owners[q.Owner]; x.count > 1 {
			x.count--
			continue
		}
		delete(e.owners, q.Owner)
		s.entry(k)
	}
	return answer{OK: true}
}

// remove is Options.Remove.
func (s *service) remove(_ context.Context, names ...string) (n int, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if s.entry(name) != nil {
			n++
		}
		delete(s.keys, name)
	}
	return n, nil
}

// find is Options.Find.
func (s *service) find(_ context.Context, part string) (names []string, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.keys {
		if strings.Contains(name, part) && s.entry(name) != nil {
			names = append(names, name)
		}
	}
	return names, nil
}
