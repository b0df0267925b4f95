package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
)

// A rival is a lock on the same keys that shares no code with ours, nor with what the
// client library has for buckets: requests with headers, as ADR-8 and ADR-43 have them, and
// polling.
type rival struct {
	conn  *nats.Conn
	owner string
}

// put sends one conditional write, and reports its revision, 0 if it was refused.
func (r *rival) put(ctx context.Context, expect uint64, headers ...string) (uint64, error) {
	m := nats.NewMsg("$KV.lockbench.orders_2F42")
	m.Data = []byte(r.owner)
	m.Header["Nats-Expected-Last-Subject-Sequence"] = []string{strconv.FormatUint(expect, 10)}
	for i := 0; i < len(headers); i += 2 {
		m.Header[headers[i]] = []string{headers[i+1]}
	}
	answer, err := r.conn.RequestMsgWithContext(ctx, m)
	if err != nil {
		return 0, err
	}
	var ack struct {
		Seq   uint64
		Error *struct {
			Code int `json:"err_code"`
		}
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return 0, err
	}
	if ack.Error != nil && ack.Error.Code != 10071 && ack.Error.Code != 10164 {
		return 0, fmt.Errorf("NATS says %s", answer.Data)
	}
	return ack.Seq, nil
}

// lock polls until it has created the key.
func (r *rival) lock(ctx context.Context) (uint64, error) {
	for expect := uint64(0); ; time.Sleep(time.Millisecond) {
		if rev, err := r.put(ctx, expect, "Nats-TTL", "30s"); rev != 0 || err != nil {
			return rev, err
		}
		answer, err := r.conn.RequestWithContext(ctx, "$JS.API.DIRECT.GET.KV_lockbench", []byte(`{"last_by_subj":"$KV.lockbench.orders_2F42"}`))
		if err != nil {
			return 0, err
		}
		expect = 0
		if answer.Header.Get("KV-Operation") != "" || answer.Header.Get("Nats-Marker-Reason") != "" {
			if expect, err = strconv.ParseUint(answer.Header.Get("Nats-Sequence"), 10, 64); err != nil {
				return 0, err
			}
		}
	}
}

// Ours and a lock that others have written on the same keys exclude each other, and each
// wakes ours.
func TestRival(t *testing.T) {
	s := start(t, lock.Single)
	ctx := within(t)
	const each, rounds = 3, 30
	var inside atomic.Int32
	var all sync.WaitGroup
	enter := func(who string) {
		if n := inside.Add(1); n != 1 {
			locktest.Violation(t, "%s is inside with %d others", who, n-1)
		}
		time.Sleep(100 * time.Microsecond)
		inside.Add(-1)
	}
	var revs [2]atomic.Int64 // the grants of each side
	ours := client(t, s, lock.Config{TTL: 10 * time.Minute})
	for i := range each {
		all.Go(func() {
			for range rounds {
				lease, err := ours.Acquire(ctx, "orders/42")
				if err != nil {
					t.Error(err)
					return
				}
				enter("ours")
				if err := lease.Release(ctx); err != nil {
					t.Error(err)
					return
				}
				revs[0].Add(1)
			}
		})
		all.Go(func() {
			conn, err := nats.Connect(s.Deployment.Nodes[0].Reveal())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			r := &rival{conn, fmt.Sprintf("rival-%d", i)}
			for range rounds {
				rev, err := r.lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				enter("the rival")
				if freed, err := r.put(ctx, rev, "KV-Operation", "DEL"); freed == 0 || err != nil {
					t.Errorf("the rival releases: %d, %v", freed, err)
					return
				}
				revs[1].Add(1)
			}
		})
	}
	all.Wait()
	if a, b := revs[0].Load(), revs[1].Load(); a != each*rounds || b != each*rounds {
		t.Errorf("%d grants to ours and %d to the rival, want %d to each", a, b, each*rounds)
	}
}
