package fault

import (
	"context"
	"time"
)

// Cut drops everything that clients and servers send each other. New connections are
// made, and stay silent. A connection that has lost bytes is reset when the cut ends; see
// Drop.
type Cut struct {
	At      time.Duration // since the measured window began
	For     time.Duration
	Servers Target // which are cut off
}

// Name is "cut".
func (Cut) Name() string { return "cut" }

// String is the form that Parse reads.
func (c Cut) String() string { return write(c.Name(), c.At, c.For, c.Servers.write(ofServers)) }

// Plan strikes the network.
func (c Cut) Plan() Plan { return Plan{At: c.At, For: c.For, Part: Network} }

// Check wants proxies before the servers.
func (c Cut) Check(e *Env) error { return e.lacks(c) }

// Inject drops what comes from now on.
func (c Cut) Inject(ctx context.Context, e *Env) (*Injection, error) {
	if err := c.Check(e); err != nil {
		return nil, err
	}
	i := e.injection()
	struck, err := c.Servers.servers(ctx, e, i, len(e.Proxies))
	if err != nil {
		return nil, err
	}
	var list Proxies
	for _, n := range struck {
		list = append(list, e.Proxies[n])
	}
	if err := i.change(ctx, list, func(Mode) Mode { return Drop }); err != nil {
		return nil, err
	}
	return i, nil
}

// RTT adds to each round trip between clients and servers, half in each direction.
type RTT struct {
	At  time.Duration // since the measured window began
	For time.Duration
	Add time.Duration // to each round trip
}

// Name is "rtt".
func (RTT) Name() string { return "rtt" }

// String is the form that Parse reads.
func (r RTT) String() string { return write(r.Name(), r.At, r.For, r.Add.String()) }

// Plan strikes the network.
func (r RTT) Plan() Plan { return Plan{At: r.At, For: r.For, Part: Network} }

// Check wants proxies before the servers.
func (r RTT) Check(e *Env) error { return e.lacks(r) }

// Inject delays what comes from now on.
func (r RTT) Inject(ctx context.Context, e *Env) (*Injection, error) {
	if err := r.Check(e); err != nil {
		return nil, err
	}
	i := e.injection()
	err := i.change(ctx, e.Proxies, func(m Mode) Mode {
		if m < Pass { // what holds or drops everything delays it already
			return m
		}
		return Delay(time.Duration(m) + r.Add/2)
	})
	if err != nil {
		return nil, err
	}
	return i, nil
}

// change sets the modes of list to what to makes of them until the injection is healed.
func (i *Injection) change(ctx context.Context, list Proxies, to func(Mode) Mode) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	before := make([][2]Mode, len(list))
	for n, p := range list {
		before[n] = [2]Mode{p.Mode(Up), p.Mode(Down)}
	}
	seen := list.Traffic()
	for n, p := range list {
		p.Set(Up, to(before[n][Up]))
		p.Set(Down, to(before[n][Down]))
	}
	i.From = time.Now()
	i.note("%s at %d proxies with %d connections", list[0].Mode(Up), len(list), seen.Open)
	i.undo = func(context.Context) error {
		now := list.Traffic()
		i.To = time.Now()
		for n, p := range list {
			p.Set(Up, before[n][Up])
			p.Set(Down, before[n][Down])
		}
		i.note("%s again; %d bytes to servers and %d to clients were dropped",
			list[0].Mode(Up), now.Dropped[Up]-seen.Dropped[Up], now.Dropped[Down]-seen.Dropped[Down])
		return nil
	}
	return nil
}
