package results

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// cellFile is a file with two cells.
func cellFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "cells.jsonl")
	w, kept, err := AppendCells(name)
	if err != nil || len(kept) != 0 {
		t.Fatal(kept, err)
	}
	for i := range 2 {
		if err := w.Write(Cell{Schema: CellSchema, Algo: "redis-token", Fault: "pause", Repeat: i, Verdict: Violated}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestReadAllFiles(t *testing.T) {
	cells := cellFile(t)
	whole, err := os.ReadFile(cells)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct {
		name  string
		files []string
		cells int
		bad   string // in the only error; "" is none
	}{
		{"cells", []string{cells}, 2, ""},
		{"a last cell that was cut short", []string{put("cut", string(whole[:len(whole)-9]))}, 1, ""},
		{"only a cell that was cut short", []string{put("cut1", string(whole[:40]))}, 0, ""},
		{"a line that is no cell", []string{put("bad", string(whole)+"{}\n")}, 0, ":3: no cell of a safety matrix"},
		{"another schema", []string{put("new", `{"cell_schema":99}`+"\n")}, 0, ":1: schema 99, and this program reads 1: measure it again"},
		{"empty", []string{put("empty", "")}, 0, ""},
		{"no file", []string{filepath.Join(dir, "nosuch")}, 0, "no such file"},
		{"no JSON", []string{put("page", "<html>\n")}, 0, ":1: not JSON"},
		{"cells beside what is neither", []string{cells, put("page2", "<html>\n")}, 2, ":1: not JSON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			runs, got, errs := ReadAllFiles(tc.files...)
			if len(got) != tc.cells || len(runs) != 0 {
				t.Errorf("%d cells and %d runs, want %d cells", len(got), len(runs), tc.cells)
			}
			switch {
			case tc.bad == "" && len(errs) == 0:
			case len(errs) != 1 || tc.bad == "" || !strings.Contains(errs[0].Error(), tc.bad):
				t.Errorf("errors %v, want one with %q", errs, tc.bad)
			}
		})
	}
}

// Each outcome has a letter of its own.
func TestLetters(t *testing.T) {
	seen := make(map[string]Outcome)
	for _, o := range []Outcome{Held, Blocked, Stuck, Violated, Careless, NotExercised, NoServer, "", "melted"} {
		l := o.Letter()
		if other, ok := seen[l]; ok || len(l) > 1 {
			t.Errorf("%q has the letter %q, as %q", o, l, other)
		}
		seen[l] = o
	}
}
