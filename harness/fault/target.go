package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A Target says which of several a fault strikes: servers, of which each member of a
// cluster or an ensemble is one, or client processes. One field at most is set. The zero
// value is all servers, or the first client.
type Target struct {
	First int // the first ones
	Only  int // that one alone, counted from 1
	// Role is the first one that is this when the fault strikes, which waits for one: of
	// servers what they say, see server.Server.Roles; of clients Holder.
	Role string
}

// Holder is the Target.Role of the client process of which an owner holds a key.
const Holder = "holder"

// The nouns of what a Target counts.
const (
	ofServers = "node"
	ofClients = "client"
)

// rolesOf are what a Target.Role may be.
func rolesOf(noun string) []string {
	if noun == ofClients {
		return []string{Holder}
	}
	return []string{"master", "replica", "sentinel", "leader", "follower"}
}

// write is t as parseTarget reads it, "" for its zero value.
func (t Target) write(noun string) string {
	switch {
	case t.Role != "":
		return t.Role
	case t.Only > 0:
		return noun + "=" + strconv.Itoa(t.Only)
	case t.First > 0:
		return strconv.Itoa(t.First)
	}
	return ""
}

// parseTarget reads N, node=N or client=N, or a role.
func parseTarget(text, noun string) (t Target, err error) {
	if slices.Contains(rolesOf(noun), text) {
		return Target{Role: text}, nil
	}
	at := &t.First
	number, only := strings.CutPrefix(text, noun+"=")
	if only {
		at = &t.Only
	}
	if *at, err = strconv.Atoi(number); err != nil || *at < 1 {
		return Target{}, fmt.Errorf("%q is no number, and none of %s", text, strings.Join(append([]string{noun + "=2"}, rolesOf(noun)...), ", "))
	}
	return t, nil
}

// pick lists the numbers, from 0, of those that t means of all that there are. Roles are
// what each of them is now.
func (t Target) pick(all int, roles []string, what string) (list []int, err error) {
	from, to := 0, all
	switch {
	case t.Role != "":
		i := slices.Index(roles, t.Role)
		if i < 0 {
			return nil, fmt.Errorf("none of %d %s is a %s now%s", all, what, t.Role, are(roles))
		}
		from, to = i, i+1
	case t.First < 0 || t.Only < 0:
		return nil, errors.New("its target is negative")
	case max(t.First, t.Only) > all:
		return nil, fmt.Errorf("there are %d %s, and %s should be struck", all, what, t.ordinal())
	case t.Only > 0:
		from, to = t.Only-1, t.Only
	case t.First > 0:
		to = t.First
	}
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list, nil
}

// ordinal says what t counts.
func (t Target) ordinal() string {
	if t.Only > 0 {
		return "number " + strconv.Itoa(t.Only)
	}
	return strconv.Itoa(t.First)
}

// are tells of roles, "" if there are none.
func are(roles []string) string {
	if strings.Join(roles, "") == "" {
		return ""
	}
	return ": they are " + strings.Join(roles, ", ")
}

// servers lists the numbers of those servers of e, of n in all, that t means, and notes in
// i which they are, and in which roles, where there are several.
func (t Target) servers(ctx context.Context, e *Env, i *Injection, n int) ([]int, error) {
	roles := t.roles(ctx, e, n)
	list, err := t.pick(n, roles, "servers")
	if err != nil || n < 2 {
		return list, err
	}
	var each []string
	for _, n := range list {
		one := strconv.Itoa(n + 1)
		if roles[n] != "" {
			one += " (" + roles[n] + ")"
		}
		each = append(each, one)
	}
	i.note("of %d servers it strikes %s", n, strings.Join(each, ", "))
	return list, nil
}

// roles are those of the n servers of e, "" if they are not known. Where servers work
// together it waits for one that has the role that t means: they may just be electing it.
func (t Target) roles(ctx context.Context, e *Env, n int) []string {
	if e.Server == nil {
		return make([]string, n)
	}
	ctx, cancel := context.WithTimeout(ctx, electWithin)
	defer cancel()
	for {
		now := e.Server.Roles(ctx)
		if len(now) != n {
			return make([]string, n)
		}
		if t.Role == "" || slices.Contains(now, t.Role) || e.Server.Topology() == lock.Single || !wait(ctx, 50*time.Millisecond) {
			return now
		}
	}
}

// electWithin bounds the wait for a server to have a role. An election takes a second or
// two, longer where the machine is busy.
const electWithin = 10 * time.Second

// clients lists the numbers of the clients of e that t means, which have to run. It waits
// for one that holds a key if t means that.
func (t Target) clients(ctx context.Context, e *Env) (list []int, err error) {
	if t == (Target{}) {
		t.First = 1
	}
	roles := make([]string, len(e.Workers))
	holds := func(w Worker) bool {
		_, ok := w.Holds()
		return ok
	}
	if t.Role == Holder {
		ctx, cancel := context.WithTimeout(ctx, stopWithin)
		defer cancel()
		n := slices.IndexFunc(e.Workers, holds)
		for ; n < 0; n = slices.IndexFunc(e.Workers, holds) {
			if !wait(ctx, 100*time.Microsecond) {
				return nil, fmt.Errorf("no client process was seen to hold a key: %w", context.Cause(ctx))
			}
		}
		roles[n] = Holder
	}
	list, err = t.pick(len(e.Workers), roles, "client processes")
	for _, n := range list {
		if !e.Workers[n].Process().Alive() {
			return nil, fmt.Errorf("client process %d of %d has ended already", n+1, len(e.Workers))
		}
	}
	return list, err
}
