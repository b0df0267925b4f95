package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/lockbench/lockbench/"

// floors is which of our packages each may import, besides itself in tests. A
// package that is missing here has not been given its place yet.
var floors = map[string][]string{
	"impls/lock":             nil,
	"results":                nil,
	"results/capacity":       {"results"},
	"results/compare":        {"results"},
	"harness/server":         {"impls/lock", "results"},
	"harness/server/builtin": nil,
	"harness/fault":          {"impls/lock", "harness/server", "results"},
	"harness":                {"impls/lock", "results", "harness/server", "harness/fault"},
	"harness/search":         {"results"},
	"harness/locktest":       {"impls/lock", "harness", "harness/fault"},
	"harness/safety":         {"impls/lock", "results", "harness", "harness/fault", "harness/server"},
	"impls/local":            {"impls/lock"},
	"impls/redis/wire":       {"impls/lock"},
	"impls/redis/goredis":    {"impls/lock", "impls/redis/wire"},
	"impls/redis/redigo":     {"impls/lock", "impls/redis/wire"},
	"impls/redis/rueidis":    {"impls/lock", "impls/redis/wire"},
	"impls/redis/queue":      {"impls/lock", "impls/redis/wire"},
	"impls/redis":            {"impls/lock", "impls/redis/wire", "impls/redis/queue"},
	"impls/sql":              {"impls/lock"},
	"impls/zookeeper":        {"impls/lock"},
	"impls/etcd":             {"impls/lock"},
	"impls/nats":             {"impls/lock"},
	"impls/failover":         {"impls/lock"},
	"impls/peer":             {"impls/lock", "impls/etcd", "impls/zookeeper", "impls/redis/wire", "impls/redis/goredis"},
	"impls":                  {"impls/etcd", "impls/failover", "impls/local", "impls/lock", "impls/nats", "impls/peer", "impls/redis", "impls/redis/goredis", "impls/redis/redigo", "impls/redis/rueidis", "impls/sql", "impls/zookeeper"},
	"plots":                  {"results", "results/compare"},
	"plots/page":             {"results", "results/capacity", "results/compare"},
	"bench/tests":            nil,
	"bench/lockbench":        {"bench"},
	"bench/validate":         {"bench", "impls", "impls/lock", "results", "results/capacity", "harness", "harness/server"},
	"bench/theory":           {"bench", "impls", "impls/lock", "results", "harness", "harness/server"},
	"bench":                  {"impls", "impls/lock", "results", "harness", "harness/server", "harness/server/builtin", "harness/fault", "harness/safety", "plots", "plots/page", "results/capacity", "results/compare", "harness/search"},

	// What only tests import.
	"impls/redis/internal/redistest": {"impls/lock", "impls/redis/wire", "impls/redis/goredis", "impls/redis/redigo", "impls/redis/rueidis", "harness/server"},
}

func TestFloors(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		allowed, known := floors[name]
		if !known {
			t.Errorf("package %s has no floor: give it one in the map above", name)
		}
		for _, i := range p.Imports {
			if i, ours := strings.CutPrefix(i, module); ours && !slices.Contains(allowed, i) {
				t.Errorf("%s may not import %s", name, i)
			}
		}
	}
}

// Rules of the house that a compiler does not know.
func TestHouseRules(t *testing.T) {
	var (
		// Commands that touch other people's keys.
		dangerous = regexp.MustCompile(`(?i)^\s*(flushall|flushdb|swapdb|keys)(\s|$)`)
		// How a test fails, and how it would say of two owners inside that they were.
		fails = regexp.MustCompile(`^(Error|Fatal|Broken)f?$`)
		two   = regexp.MustCompile(`^"%[dv] inside"$|(owners|readers|writers) (are|were) inside|got in (beside|through|while)|second owner got in|let in beside|was granted a held`)
		set   = token.NewFileSet()
	)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "init" && n.Recv == nil {
					t.Errorf("%s: init() hides what a program does at its start", set.Position(n.Pos()))
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && fails.MatchString(f.Sel.Name) && fmt.Sprint(f.X) != "fmt" && len(n.Args) > 0 {
					if text, ok := n.Args[0].(*ast.BasicLit); ok && two.MatchString(text.Value) {
						t.Errorf("%s: this is for locktest.Violation to say: %s", set.Position(n.Pos()), text.Value)
					}
				}
			case *ast.GoStmt:
				if f.Name.Name == "plots" {
					t.Errorf("%s: plots starts a goroutine, so make race must not leave it out", set.Position(n.Pos()))
				}
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && dangerous.MatchString(s) && s == strings.ToUpper(s) {
					t.Errorf("%s: %q removes or lists what is not ours", set.Position(n.Pos()), s)
				}
			}
			return true
		})
		if n := set.File(f.Pos()).LineCount(); n > 500 {
			t.Errorf("%s has %d lines: is it one idea?", path, n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
