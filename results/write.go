package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A Writer appends runs to a results file, one line each. What it has written
// survives a crash of the program and of the machine, and lines of other
// writers on the same file do not mix with its own. It is safe for concurrent
// use.
type Writer struct {
	mu      sync.Mutex
	f       *os.File
	regular bool // not a device or pipe, which can neither be synced nor looked back into
	n       int  // runs written and synced
}

// Append opens the results file for appending; it is created, with mode 0644,
// if it does not exist, but its directory is not.
//
// A last line without its end, left by a program that died while writing, stays
// as it is: readers report it, and the next run starts on a line of its own. A file
// whose first line is no run is somebody else's, and refused.
func Append(name string) (*Writer, error) {
	// Reading is for the look at the last byte.
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("results file: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("results file: %w", err)
	}
	w := &Writer{f: f, regular: info.Mode().IsRegular()}
	if w.regular {
		if err := ours(f, info.Size()); err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("%s:1: %w; it is left as it was: name another file for the runs", name, err)
		}
		syncDir(filepath.Dir(name))
	}
	return w, nil
}

// ours returns nil if the first line of f is a run, or may be the beginning of one
// that was cut short.
func ours(f io.ReaderAt, size int64) error {
	line, err := readLine(bufio.NewReader(io.NewSectionReader(f, 0, size)), maxLine)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	const begin = `{"schema":` // as the fields of Run stand
	line = bytes.TrimSpace(line)
	if head := string(line); strings.HasPrefix(begin, head) || strings.HasPrefix(head, begin) || isSearch(line) {
		return nil
	}
	_, err = parse(line)
	return err
}

// syncDir makes the entry of a new file durable. Not every file system can,
// and none needs it against a mere kill, so an error is no reason to stop.
func syncDir(name string) {
	if dir, err := os.Open(name); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
}

// Write appends r. When it returns nil the run is on the disk. A Schema of 0 is
// written as Schema. R must pass Check; metrics that are NaN or infinite are
// left out and make the stored run, not r, invalid.
//
// An error of the disk, such as a full one, says how many runs are safe; the
// Writer may be used again.
func (w *Writer) Write(r *Run) error {
	c := *r
	if c.Schema == 0 {
		c.Schema = Schema
	}
	c.Time = c.Time.UTC()
	full := c.finite()
	if err := full.Check(); err != nil {
		return fmt.Errorf("run %s of %s: %w", r.ID, r.Trial, err)
	}
	line, err := json.Marshal(full)
	if err != nil {
		return fmt.Errorf("run %s of %s: %w", r.ID, r.Trial, err)
	}
	return w.line(line)
}

// line appends one line, which is on the disk when it returns nil.
func (w *Writer) line(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.atLineStart() {
		line = append([]byte{'\n'}, line...)
	}
	// One write call on a file opened for appending: the kernel places it as a
	// whole behind what any other writer has placed.
	if _, err := w.f.Write(append(line, '\n')); err != nil {
		return w.failed(err)
	}
	if w.regular {
		if err := w.f.Sync(); err != nil {
			return w.failed(err)
		}
	}
	w.n++
	return nil
}

// atLineStart tells whether the file ends with a whole line. It looks each time,
// since the broken end may be that of another writer or of our own last attempt
// on a full disk.
func (w *Writer) atLineStart() bool {
	if !w.regular {
		return true
	}
	info, err := w.f.Stat()
	if err != nil || info.Size() == 0 {
		return err == nil
	}
	var last [1]byte
	_, err = w.f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] == '\n' // an empty line too many does no harm
}

func (w *Writer) failed(err error) error {
	runs := "runs are"
	if w.n == 1 {
		runs = "run is"
	}
	return fmt.Errorf("%w; %d %s safe in %s", err, w.n, runs, w.f.Name())
}

// Close closes the file. Everything written is safe already.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.f.Close()
}
