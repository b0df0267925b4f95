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

// A CellWriter appends cells to a file, one line each. What it has written survives a crash
// of the program. It is safe for concurrent use.
type CellWriter struct {
	mu sync.Mutex
	f  *os.File
	n  int
}

// AppendCells opens a file of cells for appending, and makes it if it is not there. The
// cells that it has already are returned: a file that holds something else is refused.
func AppendCells(name string) (*CellWriter, []Cell, error) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("file of cells: %w", err)
	}
	list, err := readCells(f, name)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return &CellWriter{f: f}, list, nil
}

// Write appends c. When it returns nil the cell is on the disk.
func (w *CellWriter) Write(c Cell) error {
	line, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("cell: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err = w.f.Write(append(line, '\n')); err == nil {
		err = w.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("file of cells: %w; %d cells are safe in it", err, w.n)
	}
	w.n++
	return nil
}

// Close closes the file.
func (w *CellWriter) Close() error { return w.f.Close() }

// ReadCells reads the cells of a file. A last line that was cut short is left out.
func ReadCells(name string) ([]Cell, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return readCells(f, name)
}

func readCells(f io.Reader, name string) (list []Cell, err error) {
	r := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		var c Cell
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.Schema == 0 {
			return nil, fmt.Errorf("%s:%d: no cell of a safety matrix", name, n)
		}
		if c.Schema != CellSchema {
			return nil, fmt.Errorf("%s:%d: schema %d, and this program reads %d: play it again", name, n, c.Schema, CellSchema)
		}
		list = append(list, c)
	}
}
