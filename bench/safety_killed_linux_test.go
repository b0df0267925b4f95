package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// offspring are the processes that pid has started, and theirs.
func offspring(pid int) (list []int) {
	for _, child := range children(pid) {
		list = append(append(list, child), offspring(child)...)
	}
	return list
}

// Where safety itself is killed in the middle of a play, whose holder it has stopped, neither
// a client, stopped or not, nor a server is left, nor any of their files.
func TestSafetyKilledLeavesNothing(t *testing.T) {
	onPath(t, "redis-server") // whose processes are to end
	dir := t.TempDir()
	cmd := process(t, "safety", "-algo", "redis-token,redis-handoff,redis-redlock", "-fault", "pause,failover,restart-empty", "-client", "goredis", "-server", "binary", "-repeat", "1000")
	cmd.Env = append(cmd.Env, "TMPDIR="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var all []int
	eventually(t, "a client is stopped", func() bool {
		all = offspring(cmd.Process.Pid)
		return slices.ContainsFunc(all, halted)
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, pid := range all {
		eventually(t, "its processes have ended", func() bool { return !lives(pid) })
	}
	eventually(t, "none is left that was started since", func() bool { return len(inTheirEnvironment("TMPDIR="+dir)) == 0 })
	eventually(t, "no file is left", func() bool {
		left, err := os.ReadDir(dir)
		return err == nil && len(left) == 0
	})
}

// inTheirEnvironment are the processes that live and have setting in their environment.
func inTheirEnvironment(setting string) (list []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		text, _ := os.ReadFile(file) // it may have ended, or be somebody else's
		if slices.Contains(strings.Split(string(text), "\x00"), setting) {
			list = append(list, file)
		}
	}
	return list
}
