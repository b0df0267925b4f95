package server

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
)

// ParseTopology reads the name of a topology in which servers of kind can work
// together: single (or ""), and see Kind.
func ParseTopology(kind, text string) (lock.Topology, error) {
	names := []string{"single"}
	for _, k := range Kinds() {
		if k.Name != kind {
			continue
		}
		for _, t := range k.Topologies {
			if text == string(t) {
				return t, nil
			}
			names = append(names, string(t))
		}
	}
	if text == "" || text == "single" {
		return lock.Single, nil
	}
	last := len(names) - 1
	if last == 0 {
		return lock.Single, errors.New("want " + names[0])
	}
	return lock.Single, fmt.Errorf("want %s or %s", strings.Join(names[:last], ", "), names[last])
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
			case !fresh && !strings.Contains(part, "://") && takesHosts(list[last]):
				list[last] += "," + lock.Endpoint(part)
			default:
				list, fresh = append(list, lock.Endpoint(part)), false
			}
		}
	}
	return list
}

// takesHosts reports whether e may have a list of hosts.
func takesHosts(e lock.Endpoint) bool {
	return e.Topology() != lock.Single || (e+",host").Topology() != lock.Single
}

// topology is that of the servers of a kind that o wants.
func (o Options) topology(kind string) (lock.Topology, error) {
	given := o.URLs[kind]
	if len(given) == 0 {
		return o.Topologies[kind], nil
	}
	t := given[0].Topology()
	switch want := o.Topologies[kind]; {
	case want != lock.Single && want != t:
		return t, fmt.Errorf("a %s is asked for, and the address of something else is given", want)
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
