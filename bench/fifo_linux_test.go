package bench

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Ctrl-C ends a command that waits for somebody to write what it is to read.
func TestReadingIsInterrupted(t *testing.T) {
	for _, args := range [][]string{{"compare", "-aa"}, {"compare", "-claims", "redis"}, {"plot", "-out", t.TempDir()}, {"show"}} {
		fifo := filepath.Join(t.TempDir(), "fifo")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan outcome, 1)
		go func() {
			var stdout, stderr bytes.Buffer
			status := run(ctx, commands(""), append(args, fifo), stdio{strings.NewReader(""), &stdout, &stderr})
			ended <- outcome{status, stdout.String(), stderr.String()}
		}()
		cancel()
		select {
		case o := <-ended:
			oneLine(t, o, exitInterrupted, "interrupted")
		case <-time.After(30 * time.Second):
			t.Errorf("%q still waits", args)
		}
		// The goroutine that waits ends with the first writer, or did not begin.
		if w, err := os.OpenFile(fifo, os.O_RDWR, 0); err != nil {
			t.Error(err)
		} else if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}
