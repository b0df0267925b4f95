package bench

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Adding a variant takes one file and one line; everything else finds it.
func TestAddingAVariantTakesOneFileAndOneLine(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: -short leaves it out: it builds the whole module once more")
	}
	t.Parallel()
	tree := t.TempDir()
	copyModule(t, tree)

	// The file.
	template, err := os.ReadFile("testdata/template.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(tree, "impls/redis/template.go"), template)
	// The line.
	listed := filepath.Join(tree, "impls/redis/variants.go")
	before, err := os.ReadFile(listed)
	if err != nil {
		t.Fatal(err)
	}
	const last = "\t\tfenced(client, dial),\n"
	if strings.Count(string(before), last) != 1 {
		t.Fatalf("impls/redis/variants.go has no line %q to put another one after", last)
	}
	write(t, listed, []byte(strings.Replace(string(before), last, last+"\t\ttemplate(client, dial),\n", 1)))

	// in runs a program of the new tree.
	in := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = tree
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "LOCKBENCH_") }),
			"LOCKBENCH_SERVER="+string(source(t)))
		b, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, b)
		}
		return string(b)
	}

	program := filepath.Join(tree, "lockbench")
	in("go", "build", "-o", program, "./bench/lockbench")
	var list []struct{ Algo, Client string }
	if err := json.Unmarshal([]byte(in(program, "list", "-json")), &list); err != nil {
		t.Fatal(err)
	}
	for _, client := range []string{"goredis", "redigo"} {
		if !slices.Contains(list, struct{ Algo, Client string }{"redis-template", client}) {
			t.Errorf("list has no redis-template on %s", client)
		}
	}

	conformance := in("go", "test", "./impls", "-short", "-run", "Conformance/.*redis-template", "-v")
	if strings.Count(conformance, "--- PASS") < 10 || !strings.Contains(conformance, "redis-template") {
		t.Errorf("the conformance suite does not know it:\n%s", conformance)
	}

	out := filepath.Join(tree, "runs.jsonl")
	// On a busy machine no run may be valid, which is a failure, too.
	in("sh", "-c", `"$0" "$@" || test $? = 1`, program, "run", "-algo", "redis-template", "-client", "all", "-owners", "1,4",
		"-for", "100ms", "-warmup", "0", "-out", out)
	if runs := stored(t, out); len(runs) != 6 { // two clients and the yardstick
		t.Errorf("run stored %d runs", len(runs))
	}

	bench := in("go", "test", "-run", "^$", "-bench", "Lock/algo=redis-template/", "-benchtime", "10x", "./bench")
	if strings.Count(bench, "BenchmarkLock/algo=redis-template/client=") < 2 {
		t.Errorf("go test -bench does not know it:\n%s", bench)
	}

	gallery := filepath.Join(tree, "gallery")
	in(program, "plot", "-in", out, "-out", gallery)
	summary, err := os.ReadFile(filepath.Join(gallery, "summary.md"))
	if err != nil || !strings.Contains(string(summary), "redis-template") {
		t.Errorf("summary.md does not know it (%v):\n%s", err, summary)
	}
}

// copyModule copies what the go command reads of this module.
func copyModule(t *testing.T, to string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		rel, err := filepath.Rel("..", path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if rel != "." && strings.HasPrefix(name, ".") || rel == "bin" || rel == "results/runs" || rel == "plots/gallery" {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		built := []string{".go", ".c", ".tsv", ".lua", ".yaml", ".json", ".html", ".js", ".css", ".mod", ".sum"}
		source := slices.Contains(built, filepath.Ext(name)) || strings.Contains(rel, "testdata/")
		if !source {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
