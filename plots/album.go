package plots

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// An album is a directory of pictures, with a summary that lists them.
type album struct {
	dir     string
	formats []string // endings of the files of a picture
	figures []Figure
	stale   map[string]bool // files of an earlier summary that nobody has drawn again
}

// openAlbum makes dir if need be.
func openAlbum(dir string, formats ...string) (*album, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("plots: %w", err)
	}
	return &album{dir: dir, formats: formats, stale: drawnBefore(dir)}, nil
}

// add draws a picture, with suffix behind its name.
func (a *album) add(ctx context.Context, suffix string, picture picture) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("plots: %w", err)
	}
	p, missing, err := picture()
	if err != nil {
		return fmt.Errorf("plots: %w", err)
	}
	f := Figure{Name: p.name + suffix, Title: p.title, Question: p.question, Missing: missing}
	if missing == "" {
		if f.Files, err = p.save(filepath.Join(a.dir, f.Name), a.formats); err != nil {
			return fmt.Errorf("plots: %w", err)
		}
	}
	a.figures = append(a.figures, f)
	return nil
}

// close writes the summary, and removes what an earlier call drew and this one did not:
// it shows something else.
func (a *album) close(summary func(io.Writer) error) error {
	for _, f := range a.figures {
		for _, name := range f.Files {
			delete(a.stale, filepath.Base(name))
		}
	}
	for name := range a.stale {
		if err := os.Remove(filepath.Join(a.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("plots: %w", err)
		}
	}
	if err := write(filepath.Join(a.dir, SummaryFile), summary); err != nil {
		return fmt.Errorf("plots: %w", err)
	}
	return nil
}

// drawnBefore is the set of the names of the pictures that an earlier Draw left
// in dir, which its summary lists. Files that others put there are not in it.
func drawnBefore(dir string) map[string]bool {
	names := make(map[string]bool)
	b, err := os.ReadFile(filepath.Join(dir, SummaryFile))
	if err != nil {
		return names // nothing was drawn here, or nothing that can be told
	}
	for _, m := range regexp.MustCompile(`(?m)^- \[.*\]\(([a-z0-9.-]+)\.svg\): `).FindAllStringSubmatch(string(b), -1) {
		names[m[1]+".svg"], names[m[1]+".png"] = true, true
	}
	return names
}
