package results

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestDiskThatFillsUp writes to a file system of 128 KiB until it is full: the
// last line is broken there, the runs before it are safe, and once there is
// space again the same Writer goes on.
func TestDiskThatFillsUp(t *testing.T) {
	dir := t.TempDir()
	if err := mountHere(dir, "size=128k"); err != nil {
		lacking(t, "tmpfs", fmt.Sprint("a small file system takes root: ", err))
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}

	name := filepath.Join(dir, "runs.jsonl")
	w := writer(t, name)
	var full error
	n := 0
	for full == nil && n < 1000 {
		run := sample(t, fmt.Sprint("run-", n), 100)
		run.Verdict = strings.Repeat("x", 5000)
		if full = w.Write(&run); full == nil {
			n++
		}
	}
	if n < 2 || !errors.Is(full, syscall.ENOSPC) {
		t.Fatalf("after %d runs: %v, want ENOSPC", n, full)
	}
	wantLine(t, full, fmt.Sprintf("no space left on device; %d runs are safe in %s", n, name))
	if runs, _ := ReadFiles(name); len(runs) != n {
		t.Errorf("%d runs are safe, want %d", len(runs), n)
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	write(t, w, sample(t, "after", 10))
	runs, errs := ReadFiles(name)
	if len(runs) != n+1 || runs[n].ID != "after" {
		t.Errorf("%d runs, want %d and the one after", len(runs), n)
	}
	if len(errs) != 1 {
		t.Fatalf("errors %v, want one of the broken line", errs)
	}
	wantLine(t, errs[0], fmt.Sprintf("%s:%d: cut short", name, n+1))
}

// mountHere mounts a tmpfs that only this goroutine sees. It lives in the mount
// namespace of a thread that ends with the goroutine, so that it is gone even
// if the test is killed.
func mountHere(dir, options string) error {
	runtime.LockOSThread() // and never unlocked: no other goroutine may get here
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return err
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	return syscall.Mount("lockbench-test", dir, "tmpfs", 0, options)
}
