package server

import (
	"context"
	"errors"
	"strings"
	"sync"
)

// ensemble is the size of the ensembles that we start: the fewest of which one may die.
const ensemble = 3

// launchMembers starts servers that must know the ports by which they talk to each
// other before they start, and returns their addresses, separated by commas. Member
// makes the n-th program of those with these ports, whose first own port is for clients.
// If one cannot have its port all begin again.
func launchMembers(ctx context.Context, d *tempDir, g *group, members int, member func(peers []int) func(n int) program) (string, error) {
	for try := 1; ; try++ {
		list, err := launchMembersOnce(ctx, d, members, member)
		if err == nil {
			var addrs []string
			for _, r := range list {
				*g = append(*g, r)
				addrs = append(addrs, r.addr)
			}
			return strings.Join(addrs, ","), nil
		}
		for _, r := range list {
			_ = r.stop() // it only ever kills and waits
		}
		if !errors.Is(err, errTaken) || try == 5 || ctx.Err() != nil {
			return "", err
		}
	}
}

// launchMembersOnce starts the members at once, because none is ready before most are.
// On error it returns those that run.
func launchMembersOnce(ctx context.Context, d *tempDir, members int, member func(peers []int) func(n int) program) (list []*running, err error) {
	var peers []int
	for range members {
		port, err := d.port(ctx)
		if err != nil {
			return nil, err
		}
		peers = append(peers, port)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	of := member(peers)
	started, errs := make([]*running, members), make([]error, members)
	var wg sync.WaitGroup
	for n := range members {
		wg.Go(func() {
			if started[n], errs[n] = launchOnce(ctx, d, of(n)); errs[n] != nil {
				cancel() // the others would wait for it
			}
		})
	}
	wg.Wait()
	for n, r := range started {
		if r != nil {
			list = append(list, r)
		}
		// That of the first that failed says why, not those that were cancelled then.
		if e := errs[n]; e != nil && (err == nil || errors.Is(err, context.Canceled)) {
			err = e
		}
	}
	return list, err
}
