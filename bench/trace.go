package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/lockbench/lockbench/harness"
)

// A tracer writes single operations to a file, one line of JSON each.
type tracer struct {
	file *os.File
	buf  *bufio.Writer
	out  *json.Encoder
}

// newTracer makes name, or makes it empty.
func newTracer(name string) (*tracer, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("-trace: %w", err)
	}
	buf := bufio.NewWriter(f)
	return &tracer{f, buf, json.NewEncoder(buf)}, nil
}

func (t *tracer) write(o harness.Trace) error {
	if err := t.out.Encode(o); err != nil {
		return fmt.Errorf("-trace: %w", err)
	}
	return nil
}

func (t *tracer) close() error {
	if err := errors.Join(t.buf.Flush(), t.file.Close()); err != nil {
		return fmt.Errorf("-trace: %w", err)
	}
	return nil
}
