package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/lockbench/lockbench/plots"
	"github.com/lockbench/lockbench/results"
)

// ofSales tells whether a file holds sales, by the beginning of it. What is no regular
// file, and so could be read only once, does not.
func ofSales(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	head, _ := bufio.NewReader(f).Peek(64)
	return bytes.HasPrefix(bytes.TrimSpace(head), []byte(`{"sale_schema":`))
}

// drawSales draws the sales of files.
func drawSales(ctx context.Context, std stdio, files []string, dir string) error {
	var sales []results.Sale
	for _, name := range files {
		list, err := results.ReadSales(name)
		if err != nil {
			return err
		}
		sales = append(sales, list...)
	}
	figures, err := plots.DrawSales(ctx, sales, dir)
	for _, f := range figures {
		say(std.out, "%s: %s\n", f.Title, strings.Join(f.Files, " "))
	}
	if ctx.Err() != nil {
		return exit{exitInterrupted, fmt.Errorf("interrupted: %d pictures are in %s", drawn(figures), dir)}
	}
	if err == nil {
		say(std.out, "%d sales, %d pictures and %s in %s\n", len(sales), drawn(figures), plots.SalesFile, dir)
	}
	return err
}
