package impls_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

func TestAll(t *testing.T) {
	seen := map[string]bool{}
	clients := map[string][]string{}
	for _, v := range impls.All() {
		if seen[v.Name()] {
			t.Errorf("%s is listed twice", v.Name())
		}
		seen[v.Name()] = true
		clients[v.Algo] = append(clients[v.Algo], v.Client)
		if len(v.Exempt) > 0 && !strings.HasPrefix(v.Algo, "peer-") {
			t.Errorf("%s is ours and exempt from %q", v.Name(), v.Exempt)
		}
		if v.Caps.Has(lock.Switch) != (len(v.Engines) > 1) {
			t.Errorf("%s declares %s and has the engines %q", v.Name(), v.Caps, v.Engines)
		}
		for _, name := range v.Exempt {
			if !slices.ContainsFunc(locktest.Cases(), func(c locktest.Case) bool { return c.Name == name }) {
				t.Errorf("%s is exempt from %q, which is no case", v.Name(), name)
			}
		}
		if v.Doc == "" || v.Source == "" || v.Open == nil {
			t.Errorf("%s lacks Doc, Source or Open", v.Name())
		}
		if n := len([]rune(v.Synopsis())); n > 90 {
			t.Errorf("%s: the synopsis has %d characters, want at most 90", v.Name(), n)
		}
		if i := strings.LastIndex(v.Algo, "-"); i >= 0 && strings.Trim(v.Algo[i+1:], "0123456789") == "" {
			t.Errorf("%s ends like a count of CPUs, which benchstat would strip", v.Algo)
		}
		if names := v.Names("k"); len(names) == 0 || names[0] != "k" {
			t.Errorf("%s: Names(k) is %q, want k first", v.Name(), names)
		}
	}
	pipelined := []string{"redis-token", "redis-token-native", "redis-watchdog", "redis-fenced", "redis-tracking", "redis-handoff"}
	for algo, list := range clients {
		want := []string{""}
		switch {
		case strings.HasPrefix(algo, "failover-"):
			want = []string{"goredis"}
		case strings.HasPrefix(algo, "redis-"):
			want = []string{"goredis", "redigo"}
		case strings.HasPrefix(algo, "peer-etcd"):
			// The library is the client.
		case strings.HasPrefix(algo, "peer-rueidis"):
			want = []string{"rueidis"}
		case strings.HasPrefix(algo, "sql-") && strings.HasSuffix(algo, "-notify"):
			want = []string{"pgx"} // the other database has no such messages
		case strings.HasPrefix(algo, "sql-"):
			want = []string{"mysql", "pgx"}
		case algo == "peer-zk":
		case strings.HasPrefix(algo, "peer-"):
			want = []string{"goredis"}
		}
		if slices.Contains(pipelined, algo) {
			want = append(want, "rueidis")
		}
		if algo == "redis-tracking" { // no other library has client-side caching
			want = []string{"rueidis"}
		}
		if !slices.Equal(list, want) {
			t.Errorf("%s runs on %q, want %q", algo, list, want)
		}
	}
	for _, algo := range pipelined {
		if clients[algo] == nil {
			t.Errorf("%s is missing", algo)
		}
	}
}

// Every file that makes a variant is in its family's list.
func TestComplete(t *testing.T) {
	made := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == "." {
			return err
		}
		if d.Name() == "lock" || d.Name() == "testdata" || d.Name() == "internal" {
			return fs.SkipDir
		}
		n, missing, err := unlisted(path)
		made += n
		for _, m := range missing {
			t.Error(m)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if made < 12 {
		t.Errorf("found the makers of %d variants, want at least 12: does the search still see them?", made)
	}
}

// The search itself finds what is missing.
func TestCompleteHasTeeth(t *testing.T) {
	const list = "package family\n\nfunc Variants() []lock.Variant { return []lock.Variant{one()} }\n"
	const one = "package family\n\nfunc one() lock.Variant { return lock.Variant{Algo: \"family-one\"} }\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string // in the only finding
	}{
		{"complete", map[string]string{"list.go": list, "one.go": one}, ""},
		{"forgotten", map[string]string{"list.go": list, "one.go": one,
			"two.go": "package family\n\nfunc two(client string) (lock.Variant) { return lock.Variant{} }\n"}, "two.go"},
		{"one of two in a file", map[string]string{"list.go": list,
			"one.go": one + "\nfunc other() lock.Variant { return one() }\n"}, "other"},
		{"in a comment", map[string]string{"list.go": list + "\n// two()\n", "one.go": one,
			"two.go": "package family\n\nfunc two() lock.Variant { return lock.Variant{} }\n"}, "two.go"},
		{"test", map[string]string{"list.go": list, "one.go": one,
			"two_test.go": "package family\n\nfunc two() lock.Variant { return lock.Variant{} }\n"}, ""},
		{"no list", map[string]string{"one.go": one}, "one.go"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, missing, err := unlisted(dir)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" && len(missing) > 0 || c.want != "" && (len(missing) != 1 || !strings.Contains(missing[0], c.want)) {
				t.Errorf("found %q, want one of %q", missing, c.want)
			}
		})
	}
}

// unlisted searches the package in dir for functions that make a lock.Variant
// and returns how many there are and, in a sentence each, those that neither of
// the functions Variants and Pipelined calls.
func unlisted(dir string) (made int, missing []string, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return 0, nil, err
	}
	makers := map[string]string{} // function → file
	listed := map[string]bool{}
	fset := token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, e := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		err = errors.Join(err, e)
		if e != nil {
			continue
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil {
				continue
			}
			switch {
			case f.Name.Name == "Variants" || f.Name.Name == "Pipelined":
				ast.Inspect(f, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok {
						if name, ok := call.Fun.(*ast.Ident); ok {
							listed[name.Name] = true
						}
					}
					return true
				})
			case makes(f):
				makers[f.Name.Name] = path
			}
		}
	}
	for name, path := range makers {
		if !listed[name] {
			missing = append(missing, fmt.Sprintf(
				"%s: add %s(…) to the list in the func Variants of %s, or nobody will see it", path, name, dir))
		}
	}
	slices.Sort(missing)
	return len(makers), missing, err
}

// makes reports whether f returns one lock.Variant.
func makes(f *ast.FuncDecl) bool {
	if f.Type.Results == nil || len(f.Type.Results.List) != 1 {
		return false
	}
	s, ok := f.Type.Results.List[0].Type.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Variant" {
		return false
	}
	p, ok := s.X.(*ast.Ident)
	return ok && p.Name == "lock"
}
