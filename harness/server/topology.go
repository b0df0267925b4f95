package server

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
)

// ParseTopology reads single (or ""), cluster or sentinel.
func ParseTopology(text string) (lock.Topology, error) {
	switch t := lock.Topology(text); t {
	case "single":
		return lock.Single, nil
	case lock.Single, lock.Cluster, lock.Sentinel:
		return t, nil
	}
	return lock.Single, errors.New("want single, cluster or sentinel")
}

// Addresses reads a list of addresses, separated by commas or white space. A
// part that is no URL belongs to the list of hosts of the one before it:
// "redis+cluster://a:1,b:2 redis://c:3" are two.
func Addresses(text string) (list []lock.Endpoint) {
	for field := range strings.FieldsSeq(text) {
		fresh := true // white space ends a list of hosts
		for part := range strings.SplitSeq(field, ",") {
			last := len(list) - 1
			switch {
			case part == "":
			case !fresh && !strings.Contains(part, "://") && list[last].Topology() != lock.Single:
				list[last] += "," + lock.Endpoint(part)
			default:
				list, fresh = append(list, lock.Endpoint(part)), false
			}
		}
	}
	return list
}

// topology is that of the servers of a kind that o wants.
func (o Options) topology(kind string) (lock.Topology, error) {
	given := o.URLs[kind]
	if len(given) == 0 {
		return o.Topology, nil
	}
	t := given[0].Topology()
	switch {
	case o.Topology != lock.Single && o.Topology != t:
		return t, fmt.Errorf("a %s is asked for, and the address of something else is given", o.Topology)
	case t != lock.Single && len(given) > 1:
		return t, fmt.Errorf("the address of one %s is enough, and %d addresses are given", t, len(given))
	}
	for _, e := range given {
		if e.Topology() != t {
			return t, fmt.Errorf("some addresses are those of single servers, and one is that of a %s", e.Topology())
		}
	}
	return t, nil
}
