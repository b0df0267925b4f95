package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// maxLine bounds one line of a results file, in bytes, so that a file without
// line ends does not fill the memory. A run takes some 10 to 100 KiB.
const maxLine = 256 << 20

var errLongLine = errors.New("line too long for a run")

// Read yields the runs of a results file and, in the place of each line that
// holds none, an error that begins with "name:line:" and says what is wrong
// with it; then it goes on with the next line. Empty lines and searches are passed over.
// After an error of r itself it ends.
func Read(r io.Reader, name string) iter.Seq2[Run, error] { return readRuns(r, name, nil) }

// readRuns is Read, which gives each search to found, unless that is nil.
func readRuns(r io.Reader, name string, found func(Search)) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		in := bufio.NewReaderSize(r, 1<<16)
		for number := 1; ; number++ {
			line, err := readLine(in, maxLine)
			end := errors.Is(err, io.EOF)
			if end {
				err = nil
			}
			broken := err != nil && !errors.Is(err, errLongLine)
			var run Run
			line = bytes.TrimSpace(line)
			switch {
			case err == nil && isSearch(line):
				var one Search
				if one, err = parseSearch(line); err == nil && found != nil {
					found(one)
				}
				line = nil
			case err == nil && len(line) > 0:
				run, err = parse(line)
			}
			if err != nil {
				run, err = Run{}, fmt.Errorf("%s:%d: %w", name, number, err)
			}
			if (err != nil || len(line) > 0) && !yield(run, err) {
				return
			}
			if end || broken {
				return
			}
		}
	}
}

// readLine returns the next line, with io.EOF if the input ended with it, or
// errLongLine in the place of one of more than limit bytes. (A bufio.Scanner
// would stop for good at its first long line.)
func readLine(in *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > limit; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case long && (err == nil || errors.Is(err, io.EOF)):
			// If the input ended here, the next call says so.
			return nil, errLongLine
		}
		return line, err
	}
}

// parse decodes and checks one line.
func parse(line []byte) (Run, error) {
	// The schema first: under a newer one, fields may have other types.
	var head struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return Run{}, explain(err, line)
	}
	if err := (&Run{Schema: head.Schema}).checkSchema(); err != nil {
		return Run{}, err
	}
	var run Run
	if err := json.Unmarshal(line, &run); err != nil {
		return Run{}, explain(err, line)
	}
	if err := run.Check(); err != nil {
		return Run{}, err
	}
	return run, nil
}

// explain says in the reader's terms what is wrong with a line.
func explain(err error, line []byte) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) && line[0] != '{':
		return errors.New("not JSON: a run begins with {")
	case errors.As(err, &syntax) && syntax.Offset >= int64(len(line)):
		return errors.New("cut short: the program that wrote it was interrupted, or the disk was full")
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON: %w at byte %d", err, syntax.Offset)
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("a JSON %s: a run is an object", kind.Value)
	case errors.As(err, &kind):
		return fmt.Errorf("field %s holds a %s", kind.Field, kind.Value)
	}
	return err
}

// ReadFiles reads all runs of the named files, in order, and all errors. A run
// that was read before, from another file or the same, is an error too: it is
// not a second observation. One that was measured again is passed over, see [Latest].
func ReadFiles(names ...string) ([]Run, []error) {
	all, errs := readFiles(names, false)
	return all.Runs, errs
}

// Contents are what results files hold.
type Contents struct {
	Runs     []Run
	Cells    []Cell
	Searches []Search
}

// ReadAllFiles is [ReadFiles] for files of runs and for files of cells, which their first
// line tells apart. A file of cells with a bad line is an error as a whole.
func ReadAllFiles(names ...string) ([]Run, []Cell, []error) {
	all, errs := readFiles(names, true)
	return all.Runs, all.Cells, errs
}

// ReadContents is [ReadAllFiles] with the searches beside the runs.
func ReadContents(names ...string) (Contents, []error) { return readFiles(names, true) }

// readFiles opens each file once: it may be a pipe.
func readFiles(names []string, mixed bool) (all Contents, errs []error) {
	seen := make(map[string]string)   // run id → file
	searched := make(map[string]bool) // by id
	found := func(s Search) {
		if !searched[s.ID] {
			searched[s.ID] = true
			all.Searches = append(all.Searches, s)
		}
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("results file: %w", err))
			continue
		}
		in := bufio.NewReaderSize(f, 1<<16)
		if mixed && beginsWithCell(in) {
			list, _, err := readLines[Cell](in, name)
			if err != nil {
				errs = append(errs, err)
			}
			all.Cells = append(all.Cells, list...)
			_ = f.Close() // nothing was written
			continue
		}
		for run, err := range readRuns(in, name, found) {
			first, again := seen[run.ID]
			switch {
			case err != nil:
				errs = append(errs, err)
			case again:
				errs = append(errs, fmt.Errorf("%s: run %s is also in %s: counted once", name, run.ID, first))
			default:
				seen[run.ID] = name
				all.Runs = append(all.Runs, run)
			}
		}
		_ = f.Close() // nothing was written
	}
	all.Runs = Latest(all.Runs)
	return all, errs
}

// beginsWithCell looks at the first line of in, and takes nothing from it.
func beginsWithCell(in *bufio.Reader) bool {
	head := []byte(`{"cell_schema":`)
	first, _ := in.Peek(len(head)) // a shorter file begins with less
	return bytes.Equal(first, head)
}
