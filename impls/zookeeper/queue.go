package zookeeper

import (
	"errors"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"
)

// A queue is the node of a key, below which every owner has a node of its own with
// a number that the server gives in the order of arrival. The smallest has the key.
//
// What makes a grant believed, each time:
//
//   - the node of the owner is there, because a watch on it was set on the
//     connection that is open now and has not fired. A server tells a client of a
//     change before it answers a later request of it, so that the watch comes first;
//   - it is of the session that lives now, by the node's own word (ephemeralOwner);
//   - nobody is before it: a list of the nodes says so, or the one node that was
//     before it in such a list has gone, or the node right before it had the key and
//     has gone (see tells). Nobody comes before it later, but for an owner
//     that reads what it holds already (see before).
//
// Without the first two a client whose session ended in between believes what it
// sees of the next one's queue: the phantom grant of other libraries.
type queue struct {
	s    *session
	path string

	mu     sync.Mutex
	mine   map[string]*node // the nodes of this client, by name
	next   *listing         // that has not begun
	flying bool
	users  int // calls and nodes, guarded by session.mu
}

// A listing is one answer to the question who is there, for all who asked before
// it was put.
type listing struct {
	done  chan struct{}
	names []contender
	err   error
}

// queue returns the queue at path, which must be given back with leave.
func (s *session) queue(path string) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[path]
	if q == nil {
		q = &queue{s: s, path: path, mine: map[string]*node{}}
		s.queues[path] = q
	}
	q.users++
	return q
}

func (q *queue) leave() {
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	q.left()
}

// left is leave while session.mu is held.
func (q *queue) left() {
	if q.users--; q.users == 0 {
		delete(q.s.queues, q.path)
	}
}

// find looks for the node whose name begins with prefix, "" if there is none. The
// server that is asked must not be behind the one that may have made it, nor
// behind itself: see noZnode.
func (q *queue) find(prefix string) (name string, err error) {
	var list []string
	err = q.s.do(func() (err error) {
		err = q.s.conn.Delete(q.path+"/"+noZnode, -1)
		if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
			return err
		}
		list, _, err = q.s.conn.Children(q.path)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return "", nil
	}
	for _, name := range list {
		if strings.HasPrefix(name, prefix) {
			return name, nil
		}
	}
	return "", err
}

// unimplemented is how the library tells of an error of the server that it has no
// name for: an older server knows no containers.
const unimplemented = "unknown error: -6"

// parents makes the node at path and those above it. They are containers, which the
// server removes some time after their last child has gone, where it knows of such
// nodes (since 3.5.1).
func (s *session) parents(path string) error {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		at := path[:i]
		err := s.do(func() error {
			if len(at) <= len(s.root) { // the user's own
				_, err := s.conn.Create(at, nil, 0, s.acl)
				return err
			}
			_, err := s.conn.CreateContainer(at, nil, zk.FlagContainer, s.acl)
			if err != nil && err.Error() == unimplemented {
				_, err = s.conn.Create(at, nil, 0, s.acl)
			}
			return err
		})
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

func (s *session) lifeNow() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// ask returns the list that will be asked for next, for all who ask meanwhile.
func (q *queue) ask() *listing {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next == nil {
		q.next = &listing{done: make(chan struct{})}
	}
	if !q.flying {
		q.flying = true
		go q.fly()
	}
	return q.next
}

func (q *queue) fly() {
	for {
		q.mu.Lock()
		l := q.next
		q.next = nil
		if l == nil {
			q.flying = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		var names []string
		l.err = q.s.do(func() (err error) {
			names, _, err = q.s.conn.Children(q.path)
			return err
		})
		l.names = inOrder(names)
		close(l.done)
	}
}
