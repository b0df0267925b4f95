package wire

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// answering is a Conn that answers each command as it says.
type answering struct {
	Conn
	do func(args []any) (any, error)
}

func (a answering) Do(_ context.Context, args ...any) (any, error) { return a.do(args) }

// What a cluster refuses for the sake of a slot is sent again for a time-out, and nothing
// else is.
func TestSettle(t *testing.T) {
	for refusal, again := range map[Error]bool{
		"TRYAGAIN Multiple keys request during rehashing of slot":                  true,
		"CLUSTERDOWN Hash slot not served":                                         true,
		"MOVED 1 127.0.0.1:1":                                                      true,
		"ASK 1 127.0.0.1:1":                                                        true,
		"ERR Script attempted to access a non local key in a cluster node script:": true,
		"READONLY You can't write against a read only replica.":                    false,
		"ERR Script attempted to access keys that do not hash to the same slot":    false,
		"OOM command not allowed when used memory > 'maxmemory'.":                  false,
	} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			s := NewSession(answering{do: func([]any) (any, error) { sent++; return nil, refusal }}, lock.Config{Timeout: time.Minute}.Filled())
			began := time.Now()
			_, err := s.Do(t.Context(), "set", "SET", "k", "v")
			took := time.Since(began) // of the bubble's clock
			var refused Error
			if !errors.As(err, &refused) || refused != refusal {
				t.Errorf("%s: %v", refusal, err)
			}
			if again && (took < 50*time.Second || took > time.Minute) || !again && sent != 1 {
				t.Errorf("%s: sent %d times in %v", refusal, sent, took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began = time.Now()
			if _, err := s.Do(ctx, "set", "SET", "k", "v"); err == nil || time.Since(began) > time.Second {
				t.Errorf("%s: %v, %v after a context of a second", refusal, err, time.Since(began))
			}
		})
	}
}

// A refusal of one lease is no other's, nor is that of all together.
func TestRenewalsRefused(t *testing.T) {
	const refused = Error("NOPERM this user has no permissions to access one of the keys used as arguments")
	conn := answering{do: func(args []any) (any, error) {
		n := args[2].(int)
		for _, key := range args[3 : 3+n] {
			if key == "forbidden" {
				return nil, refused
			}
		}
		if n > 2 {
			return nil, Error("TRYAGAIN Multiple keys request during rehashing of slot")
		}
		return []any{int64(1)}, nil
	}}
	b := Renewals(NewSession(conn, lock.Config{}.Filled()), NewScript("return {1}"))
	errs := b.Renew(t.Context(), []any{heldKey{"a", "o"}, heldKey{"forbidden", "o"}, heldKey{"b", "o"}})
	if errs[0] != nil || !errors.Is(errs[1], refused) || errs[2] != nil {
		t.Errorf("renewals: %v", errs)
	}
}
