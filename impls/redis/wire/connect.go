package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"unicode"

	"github.com/lockbench/lockbench/impls/lock"
)

// ErrNoServer is the error of a Deployment without nodes.
var ErrNoServer = errors.New("redis: no server given: name one as redis://HOST:PORT")

// Connect dials ep and makes sure by one PING that a Redis is there and accepts the
// client. Its errors are one line that names the address, never the password, and
// says what to do.
func Connect(ctx context.Context, dial Dial, ep lock.Endpoint, c lock.Config) (Conn, error) {
	a, err := ParseAddress(ep)
	if err != nil {
		return nil, err
	}
	conn, err := dial(ctx, ep, c)
	if err != nil {
		return nil, fmt.Errorf("redis: cannot connect to %s: %w", a, err)
	}
	reply, err := conn.Do(ctx, "PING")
	switch {
	case err != nil:
		err = &unusable{fmt.Sprintf("redis: cannot use %s: %s: %s", a, advice(err, a.Hosts[0]), Printable(err)), err}
	case reply != "PONG":
		err = fmt.Errorf("redis: cannot use %s: it answered PING with %.40q, so it is no Redis", a, fmt.Sprint(reply))
	default:
		return conn, nil
	}
	// The first error is the one that matters.
	return nil, lock.Discard(conn, err)
}

// Reach is Connect for every node of d.
func Reach(ctx context.Context, dial Dial, d lock.Deployment, c lock.Config) ([]Conn, error) {
	if len(d.Nodes) == 0 {
		return nil, ErrNoServer
	}
	var list []Conn
	for _, ep := range d.Nodes {
		conn, err := Connect(ctx, dial, ep, c)
		if err != nil {
			for _, other := range list {
				_ = other.Close() // the first error is the one that matters
			}
			return nil, err
		}
		list = append(list, conn)
	}
	return list, nil
}

// unusable is the error of a server that the first command failed on.
type unusable struct {
	text  string
	cause error
}

func (u *unusable) Error() string { return u.text }
func (u *unusable) Unwrap() error { return u.cause }

// Printable is the text of err in one line of moderate length: what is no Redis
// may have answered with anything, and libraries quote it.
func Printable(err error) string {
	text := strings.TrimPrefix(err.Error(), ErrUnsent.Error()+": ")
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return '.'
	}, text)
	if r := []rune(text); len(r) > 200 {
		text = string(r[:200]) + "…"
	}
	return text
}

// advice says in a few words why the first command failed and what to do.
func advice(err error, u *url.URL) string {
	var refused Error
	var record tls.RecordHeaderError
	var cert *tls.CertificateVerificationError
	var dns *net.DNSError
	var slow net.Error
	var op *net.OpError
	switch {
	case errors.As(err, &refused):
		return refusal(refused)
	case errors.As(err, &cert):
		return "its certificate is not trusted here (add its CA to the system's, or name it by SSL_CERT_FILE)"
	case errors.As(err, &record):
		return "it does not speak TLS (use redis:// instead of rediss://)"
	case errors.As(err, &dns):
		return "the host's name cannot be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there (is the server running, and is the port right?)"
	case errors.Is(err, syscall.ENOENT):
		return "there is no such socket"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return "no answer in time (is it a Redis, and can it be reached from here?)"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		if u.Scheme == "redis" {
			return "it hung up (it is no Redis, or one that wants TLS: rediss://)"
		}
		return "it hung up (it is no Redis, or one without TLS: redis://)"
	case errors.As(err, &op) && op.Op == "dial":
		return "it cannot be reached"
	}
	return "what answers there is no Redis"
}

// refusal explains an error reply to the first command.
func refusal(e Error) string {
	text := strings.ToLower(string(e))
	switch code := e.Code(); {
	case code == "WRONGPASS", code == "ERR" && strings.Contains(text, "invalid password"):
		return "wrong user or password"
	case code == "NOAUTH":
		return "it wants a password (write redis://:PASSWORD@HOST or redis://USER:PASSWORD@HOST)"
	case code == "ERR" && strings.Contains(text, "auth") && strings.Contains(text, "without any password"),
		code == "ERR" && strings.Contains(text, "no password is set"):
		return "it has no password set (leave it out of the address)"
	case code == "NOPERM":
		return "the user may not do this (allow it the commands and keys of the lock)"
	case code == "ERR" && strings.Contains(text, "db index"):
		return "it has no database of that number"
	case code == "LOADING":
		return "it is still loading its data (try again soon)"
	case code == "" || strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		return "what answers there is no Redis"
	}
	return "it refused"
}

// Join is errors.Join without its line breaks.
func Join(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	err := errs[0]
	for _, e := range errs[1:] {
		err = fmt.Errorf("%w; %w", err, e)
	}
	return err
}
