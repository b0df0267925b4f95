// Package page writes the report: one HTML file that shows stored runs, cells of the safety
// matrix, a capacity plan and forecasts, and that opens from disk without a network.
//
// Its tables are there without scripts. The scripts, all of them in assets, sort and filter
// them, and keep what was chosen in the hash of the address, so that every view is a link.
// A content security policy lets in nothing but the parts of the file itself.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/lockbench/lockbench/results"
	"github.com/lockbench/lockbench/results/capacity"
	"github.com/lockbench/lockbench/results/compare"
)

//go:embed assets
var assets embed.FS

// Budget is how many bytes a page may have: what a mail can carry, and a browser opens at
// once.
const Budget = 2 << 20

// ErrTooLarge is wrapped by the error of a page that would be larger than Budget.
var ErrTooLarge = errors.New("page: larger than a report may be")

// Lock is what is known of a variant beside its runs.
type Lock struct {
	Name   string   // algo/client, or algo alone
	Doc    string   // one sentence
	Traits []string // names of what it can do and promises, of those in Data.Wanted
	Breaks []string // what lets two owners in, or nobody ever again, in plain words
}

// Trait is something that a reader may want of a lock.
type Trait struct{ Name, Says string }

// Figure is a picture.
type Figure struct {
	Title, Question string
	SVG             []byte // a whole SVG document
}

// Claim is something that was claimed of locks, and what Runs say of it.
type Claim struct {
	Text, Outcome string // the outcome is one of package compare
	Says          string // the value with its interval, the bound, and what was compared
}

// Data is what a page shows. Only Runs are needed.
type Data struct {
	Made      time.Time
	Commit    string   // of the program that writes the page
	Files     []string // from which it was read
	Commands  []string // to do it again
	Runs      []results.Run
	Locks     []Lock  // in the order of the lists
	Wanted    []Trait // by which locks can be chosen
	Figures   []Figure
	Cells     []results.Cell
	Faults    []Trait // of the cells, in the order of the columns
	Forecasts []results.Forecast
	Plan      *capacity.Answer
	Claims    []Claim
	// Comparisons are those of Runs with older ones.
	Comparisons []*compare.Comparison
	// Searches tell the highest rates at which locks met an objective.
	Searches []results.Search
	// NotTested is what the figures say nothing about.
	NotTested []string
}

// Write writes the page of d. The error wraps ErrTooLarge if it would be too large, and
// then nothing is written.
func Write(w io.Writer, d Data) error {
	view, err := newView(d)
	if err != nil {
		return err
	}
	text, err := render(view)
	if err != nil {
		return err
	}
	if len(text) > Budget {
		return fmt.Errorf("%w: it would have %d bytes, and %d are allowed: leave files out", ErrTooLarge, len(text), Budget)
	}
	_, err = w.Write(text)
	return err
}

// joined is all files of a folder of assets, in their order.
func joined(pattern string) (string, error) {
	names, err := fs.Glob(assets, pattern)
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, name := range names {
		b, err := assets.ReadFile(name)
		if err != nil {
			return "", err
		}
		all.Write(b)
	}
	return all.String(), nil
}

// hash is how a content security policy names a part of the page.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func render(v *view) ([]byte, error) {
	style, err := joined("assets/*.css")
	if err != nil {
		return nil, err
	}
	script, err := joined("assets/*.js")
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(v.Data)
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	// The pictures have styles of their own, so styles are let in by 'unsafe-inline', which
	// reaches nothing outside of the file; scripts only by their hash.
	v.Policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src " + hash(script) + "; base-uri 'none'; form-action 'none'"
	v.Style, v.Script, v.JSON = template.CSS(style), template.JS(script), template.JS(data) //nolint:gosec // ours, and json.Marshal escapes < and >
	t, err := template.New("page.html").Funcs(functions()).ParseFS(assets, "assets/*.html")
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, v); err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	return out.Bytes(), nil
}
