package wire

import (
	"errors"
	"strings"
	"sync"
	"time"
)

// NoMaster reports whether err is the refusal of a server that takes no writes: a
// replica, which may have been the master when the connection was made, or a server that
// is not ready yet. The address may lead to the master by now, but an old connection
// never does.
func NoMaster(err error) bool {
	var refused Error
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Code() {
	case "READONLY", "MASTERDOWN", "LOADING",
		"UNBLOCKED": // a blocked client, at the moment in which its server became a replica
		return true
	}
	// Before Redis 7 the error of a script only quotes that of its command.
	return strings.Contains(string(refused), "-READONLY ")
}

// Links tell which connections of a Conn lead to a server that is no master any more.
// What was connected before a command was sent that such a server refused, is given up:
// those that send commands when they are next used, and those that receive messages at
// once, since they would go on in silence. The zero value is ready. The nodes of a
// cluster need none, because they answer with MOVED.
type Links struct {
	mu    sync.Mutex
	ended time.Time // what was made until then is given up
	feeds map[*linkedFeed]struct{}
}

// Heard takes the error, or nil, of a command that was sent at sent.
func (l *Links) Heard(sent time.Time, err error) {
	if !NoMaster(err) {
		return
	}
	l.mu.Lock()
	if sent.After(l.ended) {
		l.ended = sent
	}
	var stale []*linkedFeed
	for f := range l.feeds {
		if !f.made.After(l.ended) {
			stale = append(stale, f)
		}
	}
	l.mu.Unlock()
	for _, f := range stale {
		_ = f.Close() // who receives from it connects again
	}
}

// Stale reports whether a connection that was made at made is given up.
func (l *Links) Stale(made time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !made.After(l.ended)
}

// Feed returns f, which was just connected, so that it is closed when it is given up.
func (l *Links) Feed(f Feed) Feed {
	linked := &linkedFeed{Feed: f, of: l, made: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.feeds == nil {
		l.feeds = make(map[*linkedFeed]struct{})
	}
	l.feeds[linked] = struct{}{}
	return linked
}

type linkedFeed struct {
	Feed
	of   *Links
	made time.Time
}

func (f *linkedFeed) Close() error {
	f.of.mu.Lock()
	delete(f.of.feeds, f)
	f.of.mu.Unlock()
	return f.Feed.Close()
}
