// Package wire is how the locks of impls/redis talk to Redis: commands, scripts,
// subscriptions, addresses, the slots of a cluster and the master that sentinels name.
//
// A client library joins by a [Dial], whose [Conn] is all that the locks see of it.
// So a measured difference between two clients can only come from the clients.
package wire

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
)

// A Conn sends commands to one server. It stands for a pool of connections and
// is safe for concurrent use.
type Conn interface {
	// Do sends one command, once: an adapter never sends it again, because a
	// SET NX whose first answer was lost would find its own key and report it
	// as held. args[0] is the command's name; the others are strings, ints or
	// int64s.
	//
	// The reply is nil, an int64, a string, or a []any of these. An error reply
	// of the server is found by errors.As as an [Error]; an error that wraps
	// [ErrUnsent] proves that the server never saw the command; after any other
	// error it may have run, or may still run later.
	Do(ctx context.Context, args ...any) (reply any, err error)

	// Subscribe opens a connection of its own, which is not one of the pool,
	// and hands to h what its channels receive. Ctx bounds the call alone.
	Subscribe(ctx context.Context, h Handler) (Subscription, error)

	// Close closes all connections. Commands in flight fail.
	Close() error
}

// Dial makes a Conn for the server at ep from c, of which it uses Timeout,
// Conns and Count and which must have been Filled. The Topology of ep says what
// is behind it: the Conn of a cluster sends each command to the node that serves
// its key and follows redirections, and is a [Sharded]; that of sentinels asks
// them for the master whenever it connects, and makes sure that it is one. For
// the other topologies Conns bounds the connections to each node. It may put off connecting
// until the first command. Its errors never hold the password of ep.
type Dial func(ctx context.Context, ep lock.Endpoint, c lock.Config) (Conn, error)

// A Sharded is the Conn of a cluster. Its Subscribe listens on any of the nodes,
// which is enough for what PUBLISH sends, since the nodes tell each other.
type Sharded interface {
	Conn
	// SubscribeAt is Subscribe on the node at host:port, for channels that
	// SPUBLISH sends to; these are known to the node alone that serves their
	// slot. The node refuses others with MOVED.
	SubscribeAt(ctx context.Context, hostport string, h Handler) (Subscription, error)
}

// A Tracker is the Conn of a library that can take the server's word for which
// of the keys that it has read have changed: client-side caching.
type Tracker interface {
	// Track makes one more Conn to the same server, with a connection of its
	// own. Once one of its commands has read a key, changed is called for the
	// next change that comes from elsewhere, and with nil if it may have been
	// missed since the connection was lost. Changed is called by one goroutine
	// and must neither block nor use the Conn.
	//
	// It fails with an [Error] if the server cannot track.
	Track(ctx context.Context, changed func(keys []string)) (Conn, error)
}

// KeyOf returns the key by which a cluster chooses the node for a command of
// the locks, and whether it has one.
func KeyOf(args []any) (string, bool) {
	name, _ := args[0].(string)
	at := 1
	switch strings.ToUpper(name) {
	case "EVAL", "EVALSHA":
		if len(args) < 4 || args[2] == 0 {
			return "", false
		}
		at = 3
	case "PING", "PUBLISH", "TIME", "INFO", "WAIT", "SCRIPT", "CLUSTER", "CONFIG", "ROLE", "COMMAND":
		return "", false
	}
	if at >= len(args) {
		return "", false
	}
	key, ok := args[at].(string)
	return key, ok
}

// DefaultConns is the most connections of one Conn where Config.Conns is 0.
const DefaultConns = 64

// ErrUnsent says that a command never left the client: no connection could be
// had, or ctx was over before.
var ErrUnsent = errors.New("redis: command not sent")

// An Error is an error reply of the server, such as "WRONGTYPE Operation …".
// It proves that the server refused the command.
type Error string

// Error is the reply as the server sent it.
func (e Error) Error() string { return string(e) }

// Code is the first word of the reply, by which Redis tells errors apart.
func (e Error) Code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// A Script is a piece of Lua that the server knows by its digest. It does not
// change after NewScript.
type Script struct {
	source string
	digest string // SHA-1 in hex, as EVALSHA wants it
}

// NewScript returns the script with the given source.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{source: source, digest: hex.EncodeToString(sum[:])}
}

// Eval runs s by its digest, and by its source if the server does not know it
// yet or has forgotten it in a restart: one round trip in the steady state.
// A NOSCRIPT reply proves that nothing ran, so the second command is no retry.
func Eval(ctx context.Context, conn Conn, s *Script, keys []string, args ...any) (any, error) {
	command := make([]any, 0, 3+len(keys)+len(args))
	command = append(command, "EVALSHA", s.digest, len(keys))
	for _, k := range keys {
		command = append(command, k)
	}
	command = append(command, args...)
	reply, err := conn.Do(ctx, command...)
	var refused Error
	if errors.As(err, &refused) && refused.Code() == "NOSCRIPT" {
		command[0], command[1] = "EVAL", s.source
		reply, err = conn.Do(ctx, command...)
	}
	return reply, err
}
