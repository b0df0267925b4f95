package bench

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

// What the shell sees of locks whose holders are killed: scripts/lostupdate with real
// servers, for a few rounds. Three kills hit wrapper and command at once, two the wrapper
// alone, whose command may have written in time.
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
			case !regexp.MustCompile(regexp.QuoteMeta(v.Name()) + `: no lost update: 8×4−[3-5] rounds`).MatchString(said):
				t.Errorf("it was not shown to lose no update")
			}
		})
	}
}

// The script notices where nothing is locked: it sees a program that runs its command at once.
func TestLostUpdatesAreNoticed(t *testing.T) {
	bash := onPath(t, "bash")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unlocked := filepath.Join(t.TempDir(), "unlocked")
	write(t, unlocked, []byte(`#!/bin/sh
[ "$1" != list ] || exec "$SELF" "$@"
while [ "$1" != -- ]; do shift; done
shift
"$@"
`))
	if err := os.Chmod(unlocked, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bash, filepath.Join("..", "scripts", "lostupdate"), "redis-token/goredis", "4")
	cmd.Env = append(process(t).Env, "LOCKBENCH="+unlocked, "SELF="+self, "TMPDIR="+t.TempDir(), "LOSTUPDATE_PROCESSES=8", "LOCKBENCH_REDIS_URL=redis://localhost:1")
	var ended *exec.ExitError
	out, err := cmd.CombinedOutput()
	if !errors.As(err, &ended) || ended.ExitCode() != 1 || !strings.Contains(string(out), "redis-token/goredis: LOST UPDATES") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// The same of every lock that excludes, on every client and engine, with sixteen processes
// and fifteen rounds each, a few locks side by side. It takes half an hour, and so is asked
// for by LOCKBENCH_LOSTUPDATE=all.
func TestNoLockLosesAnUpdate(t *testing.T) {
	const beside, rounds, breaks = 6, 15, lock.NoExclusion | lock.TakeoverRace | lock.LateRelease | lock.CrashMidway
	if os.Getenv("LOCKBENCH_LOSTUPDATE") != "all" {
		t.Skip("NOT RUN: it takes half an hour: LOCKBENCH_LOSTUPDATE=all go test -v -timeout 60m -run NoLockLosesAnUpdate ./bench")
	}
	bash := onPath(t, "bash")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	byNeeds := map[lock.Needs][]string{}
	var list []lock.Variant
	for _, v := range impls.All() {
		if v.Needs.Kind != "" && v.Unsafe&breaks == 0 {
			list = append(list, v)
			byNeeds[v.Needs] = append(byNeeds[v.Needs], v.Name())
		}
	}
	servers, why := programs(t, list)
	for needs, names := range byNeeds {
		if servers[needs] == nil {
			t.Logf("%s: NOT RUN: %v", strings.Join(names, ", "), why[needs])
			continue
		}
		var urls []string
		for _, node := range servers[needs].Deployment.Nodes {
			urls = append(urls, node.Reveal())
		}
		for some := range slices.Chunk(names, beside) {
			cmd := exec.CommandContext(t.Context(), bash, filepath.Join("..", "scripts", "lostupdate"), strings.Join(some, ","), strconv.Itoa(rounds))
			cmd.Env = append(process(t).Env, "LOCKBENCH="+self, "TMPDIR="+t.TempDir(),
				"LOCKBENCH_"+strings.ToUpper(needs.Kind)+"_URL="+strings.Join(urls, ","))
			out, err := cmd.CombinedOutput()
			t.Logf("\n%s", out)
			if strings.Contains(string(out), ": LOST UPDATES") {
				locktest.Violation(t, "updates were lost")
			} else if err != nil {
				t.Errorf("it was not shown that %s lose no update: %v", strings.Join(some, ", "), err)
			}
		}
	}
}
