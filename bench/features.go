package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
)

// A feature is what a user may want of a lock. Proofs are the cases of the
// conformance suite that a variant has to pass to be said to have it; nothing is
// listed that no case proves.
type feature struct {
	name   string
	has    func(v lock.Variant) bool
	proofs []string
}

// features are those by which locks are compared.
func features() []feature {
	can := func(c lock.Caps) func(lock.Variant) bool {
		return func(v lock.Variant) bool { return v.Caps.Has(c) }
	}
	excludes := func(v lock.Variant) bool { return !v.Unsafe.Has(lock.NoExclusion) }
	return []feature{
		{"mutual exclusion while nothing fails", excludes, []string{"exclusion", "second-owner"}},
		{"wait that a context bounds or cancels", excludes, []string{"ctx-ends-wait", "ctx-race"}},
		{"try without waiting", func(v lock.Variant) bool { return excludes(v) && v.Caps.Has(lock.Try) }, []string{"try"}},
		{"waiters are woken, and do not poll", can(lock.Notify), []string{"notify"}},
		{"first come, first served", can(lock.Fair), []string{"fair"}},
		{"re-entry", can(lock.Reentrant), []string{"reentrant"}},
		{"readers and writers", can(lock.Shared), []string{"shared"}},
		{"conditions", can(lock.Cond), []string{"cond-signal", "cond-broadcast"}},
		{"several keys as one", can(lock.Multi), []string{"multi"}},
		{"free again if the holder dies", func(v lock.Variant) bool { return excludes(v) && !v.Unsafe.Has(lock.Crash) && v.Needs.Kind != "" }, []string{"lease-ends"}},
		{"lease kept alive, and its loss noticed", can(lock.Renew), []string{"renew", "long-wait", "lost"}},
		{"lease that the holder may extend", can(lock.Extend), []string{"extend"}},
		{"fencing token", can(lock.Fencing), []string{"fencing"}},
		{"never frees another's lease", func(v lock.Variant) bool { return excludes(v) && v.Unsafe&(lock.LateRelease|lock.Crash) == 0 }, []string{"late-release"}},
		{"switch to another engine", can(lock.Switch), []string{"switch-names"}},
	}
}

// families are the columns, by the start of a name and its title.
func families() [][2]string {
	return [][2]string{{"redis-", "Redis"}, {"sql-", "SQL"}, {"zk-", "ZooKeeper"}, {"etcd-", "etcd"}, {"nats-", "NATS"}, {"failover-", "several engines"}, {"peer-", "peers"}}
}

// featureTable says which locks of each family have each feature.
func featureTable(all []lock.Variant) string {
	var b strings.Builder
	b.WriteString("| feature | proved by the case |")
	for _, f := range families() {
		b.WriteString(" " + f[1] + " |")
	}
	b.WriteString("\n" + strings.Repeat("|---", 2+len(families())) + "|\n")
	for _, f := range features() {
		fmt.Fprintf(&b, "| %s | %s |", f.name, strings.Join(f.proofs, ", "))
		for _, family := range families() {
			b.WriteString(" " + having(all, family[0], f) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// having lists the algorithms of a family that have f, without what their names
// begin with: those that have it, or those that have not if they are fewer.
func having(all []lock.Variant, family string, f feature) string {
	var yes, no []string
	for _, same := range byAlgo(all) {
		name, ours := strings.CutPrefix(same[0].Algo, family)
		if !ours {
			continue
		}
		failing := func(v lock.Variant) bool {
			return !f.has(v) || slices.ContainsFunc(f.proofs, func(c string) bool { return slices.Contains(v.Exempt, c) })
		}
		if slices.ContainsFunc(same, failing) {
			no = append(no, name)
		} else {
			yes = append(yes, name)
		}
	}
	switch {
	case len(yes) == 0:
		return "–"
	case len(no) == 0:
		return "yes"
	case len(no) < len(yes):
		return "all but " + strings.Join(no, ", ")
	}
	return strings.Join(yes, ", ")
}
