package bench

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

// What the shell sees of locks whose holders are killed: scripts/lostupdate with real
// servers, for a few rounds.
func TestLockLosesNoUpdate(t *testing.T) {
	bash := onPath(t, "bash")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var list []lock.Variant
	for _, name := range []string{
		"redis-watchdog/goredis", "redis-handoff/goredis", "redis-reentrant/goredis", "sql-advisory/pgx", "sql-advisory/mysql",
		"sql-for-update/mysql", "zk-sequential", "etcd-mutex",
	} {
		for _, v := range impls.All() {
			if v.Name() == name {
				list = append(list, v)
			}
		}
	}
	if len(list) != 8 {
		t.Fatalf("%d locks have been found", len(list))
	}
	servers, why := programs(t, list)
	cmd := exec.CommandContext(t.Context(), bash)
	cmd.Env = append(process(t).Env, "LOCKBENCH="+self, "LOSTUPDATE_PROCESSES=8", "TMPDIR="+t.TempDir())
	var names []string
	for _, v := range list {
		if s := servers[v.Needs]; s != nil {
			names = append(names, v.Name())
			cmd.Env = append(cmd.Env, "LOCKBENCH_"+strings.ToUpper(v.Needs.Kind)+"_URL="+s.Deployment.Nodes[0].Reveal())
		}
	}
	cmd.Args = []string{bash, filepath.Join("..", "scripts", "lostupdate"), strings.Join(names, ","), "4"}
	said := ""
	if len(names) > 0 { // or the script would try those of its own
		begun := time.Now()
		out, err := cmd.CombinedOutput()
		said = string(out)
		t.Logf("after %s:\n%s", time.Since(begun), said)
		var ended *exec.ExitError
		if err != nil && !errors.As(err, &ended) {
			t.Fatal(err)
		}
	}
	for _, v := range list {
		t.Run(v.Name(), func(t *testing.T) {
			switch {
			case servers[v.Needs] == nil:
				t.Skipf("NOT RUN: %v", why[v.Needs])
			case strings.Contains(said, v.Name()+": LOST UPDATES"):
				locktest.Violation(t, "%s lost updates", v.Name())
			case !strings.Contains(said, v.Name()+": no lost update: 8×4−3 rounds, counter 29"):
				t.Errorf("it was not shown to lose no update")
			}
		})
	}
}
