package results

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// A record is what a file holds one of in each line, beside runs.
type record interface {
	Cell | Sale | Forecast
	// schema is the version that was stored, and the one that this program reads; what is
	// the name of a record.
	schema() (stored, known int, what string)
}

func (c Cell) schema() (stored, known int, what string) {
	return c.Schema, CellSchema, "cell of a safety matrix"
}

func (s Sale) schema() (stored, known int, what string) {
	return s.Schema, SaleSchema, "flash sale"
}

// Lines appends records to a file, one line each. What it has written survives a crash of
// the program. It is safe for concurrent use.
type Lines[T record] struct {
	mu sync.Mutex
	f  *os.File
	n  int
}

// appendLines opens a file for appending, and makes it if it is not there. What it has
// already is returned: a file that holds something else is refused.
func appendLines[T record](name string) (*Lines[T], []T, error) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("results file: %w", err)
	}
	list, cut, err := readLines[T](f, name)
	if err == nil && cut { // what follows must not become part of it
		_, err = f.Write([]byte("\n"))
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return &Lines[T]{f: f}, list, nil
}

// Write appends one record. When it returns nil it is on the disk.
func (w *Lines[T]) Write(one T) error {
	line, err := json.Marshal(one)
	if err != nil {
		return fmt.Errorf("results file: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err = w.f.Write(append(line, '\n')); err == nil {
		err = w.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("results file: %w; %d lines are safe in it", err, w.n)
	}
	w.n++
	return nil
}

// Close closes the file.
func (w *Lines[T]) Close() error { return w.f.Close() }

// fileOf is the records of a file.
func fileOf[T record](name string) ([]T, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	list, _, err := readLines[T](f, name)
	return list, err
}

// readLines reads records. A line that was cut short, because its writer died, is left out;
// cut tells that the last one was.
func readLines[T record](f io.Reader, name string) (list []T, cut bool, err error) {
	r := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := r.ReadString('\n')
		cut = line != "" && err != nil
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, false, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if strings.TrimSpace(line) != "" && !cut {
			var one T
			bad := json.Unmarshal([]byte(line), &one)
			stored, known, what := one.schema()
			var syntax *json.SyntaxError
			switch {
			case errors.As(bad, &syntax) && len(list) > 0: // it was cut, and another writer went on
			case bad != nil || stored == 0:
				return nil, false, fmt.Errorf("%s:%d: no %s", name, n, what)
			case stored != known:
				return nil, false, fmt.Errorf("%s:%d: schema %d, and this program reads %d: measure it again", name, n, stored, known)
			default:
				list = append(list, one)
			}
		}
		if err != nil {
			return list, cut, nil
		}
	}
}
