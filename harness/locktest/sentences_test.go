package locktest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// contract parses impls/lock and returns every comment in it as one line of
// text each, and the sentences that stand in the docs of the named interfaces
// and of their methods.
func contract(t *testing.T, interfaces ...string) (comments, sentences []string) {
	t.Helper()
	paths, err := filepath.Glob("../../impls/lock/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no source of the contract: %v", err)
	}
	fset := token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range file.Comments {
			comments = append(comments, oneLine(c.Text()))
		}
		for _, decl := range file.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				s := spec.(*ast.TypeSpec)
				kind, ok := s.Type.(*ast.InterfaceType)
				if !ok || !slices.Contains(interfaces, s.Name.Name) {
					continue
				}
				sentences = append(sentences, split(g.Doc.Text())...)
				for _, m := range kind.Methods.List {
					sentences = append(sentences, split(m.Doc.Text())...)
				}
			}
		}
	}
	return comments, sentences
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// split cuts a comment into its sentences.
func split(doc string) (list []string) {
	for s := range strings.SplitSeq(oneLine(doc), ". ") {
		if s = strings.TrimSpace(s); s != "" {
			list = append(list, strings.TrimSuffix(s, ".")+".")
		}
	}
	return list
}

// quoted reports whether a case quotes sentence, alone or with its neighbours.
func quoted(sentence string) bool {
	return slices.ContainsFunc(Cases(), func(c Case) bool { return strings.Contains(c.Sentence, sentence) })
}

func TestEverySentenceStandsInTheContract(t *testing.T) {
	comments, _ := contract(t)
	for _, c := range Cases() {
		found := slices.ContainsFunc(comments, func(text string) bool { return strings.Contains(text, c.Sentence) })
		if c.Sentence == "" || !found {
			t.Errorf("case %s quotes %q, which no comment in impls/lock says", c.Name, c.Sentence)
		}
	}
}

func TestEverySentenceOfTheContractHasACase(t *testing.T) {
	_, sentences := contract(t, "Locker", "Lease", "Tryer", "Sharer", "MultiLocker", "Owned", "SharedOwned", "Switcher", "Extender", "Fenced", "Deadliner")
	if len(sentences) < 15 {
		t.Fatalf("only %d sentences were found: %q", len(sentences), sentences)
	}
	// What is not a promise of a Locker or a Lease, and why.
	described := map[string]string{
		"Variants that cannot keep the second sentence declare LateRelease.":                              "Case.Breaks of late-release",
		"Tryer is the Locker that can ask once without waiting (Caps: Try).":                              "says what the type is; the case caps compares",
		"Sharer is the Locker that tells readers from writers (Caps: Shared).":                            "as above",
		"MultiLocker is the Locker that takes several keys as one (Caps: Multi).":                         "as above",
		"Owned is the Locker whose owners have names and may re-enter (Caps: Reentrant).":                 "as above",
		"SharedOwned is the Locker whose readers have names, too (Caps: Shared and Reentrant).":           "as above",
		"A reader that asks to write waits for itself.":                                                   "a warning to the caller",
		"Switcher is the Locker that can move to another engine (Caps: Switch).":                          "as above",
		"Variants that cannot keep the second sentence declare Failover.":                                 "Case.Breaks of switch",
		"Extender is the Lease whose end can be moved (Caps: Extend).":                                    "as above",
		"Fenced is the Lease that carries a fencing token (Caps: Fencing).":                               "as above",
		"It is the caller's alternative to a variant that renews.":                                        "advice to the caller",
		"Deadliner is the Lease whose client knows by its own clock until when the lease lasts at least.": "says what the type is; the case deadline checks it",
		"[Guard] uses it.":            "about Guard, which the case guard checks",
		"The zero time means no end.": "guard takes it so: a lease that never ends may say so",
	}
	for _, s := range sentences {
		if _, ok := described[s]; !ok && !quoted(s) {
			t.Errorf("no case checks %q", s)
		}
		delete(described, s)
	}
	for s := range described {
		t.Errorf("%q is excused from having a case, but stands in the contract no more", s)
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		if seen[c.Name] || c.Name == "" || c.run == nil {
			t.Errorf("case %q: a second one of its name, or it runs nothing", c.Name)
		}
		seen[c.Name] = true
	}
}
