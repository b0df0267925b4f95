package plots

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/results"
)

// kinds are runs of few on servers of two kinds, with what they promise.
func kinds(t *testing.T) []results.Run {
	t.Helper()
	runs := few(t)
	for i := range runs {
		r := &runs[i]
		switch {
		case r.Server.Kind == "":
			continue
		case r.Algo == "redis-getset":
			r.Algo, r.Client = "etcd-mutex", ""
			r.Server.Kind, r.Server.Product, r.Server.Version, r.Server.Options = "etcd", "etcd", "3.4.23", "unsafe-no-fsync true"
			r.Guarantee = &results.Guarantee{Decides: "2 of 3 servers", Durable: "each write", Frees: "when its session times out", Fencing: true}
		default:
			r.Guarantee = &results.Guarantee{Decides: "one server", Durable: "nothing", Frees: "when its lease ends"}
		}
	}
	return runs
}

// Locks of several kinds of servers share their pictures, which say what each of
// them promises and what served it.
func TestKindsTogether(t *testing.T) {
	runs := kinds(t)
	list := sets(results.Groups(runs))
	if len(list) != 1 || len(list[0].servers()) != 2 {
		t.Fatalf("%d sets, want one of two servers", len(list))
	}
	for _, p := range pages(t, runs) {
		text := ""
		for _, r := range p.caption {
			text += r.text + "\n"
		}
		for _, want := range []string{"do not promise the same: see summary.md", "redis 7.0.15", "etcd 3.4.23"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the caption lacks %q:\n%s", p.name, want, text)
			}
		}
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"table":   func(b *bytes.Buffer) error { return Table(b, runs) },
		"summary": func(b *bytes.Buffer) error { return Summary(b, runs) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "2 of 3 servers") || !strings.Contains(b.String(), "Server: etcd") {
			t.Errorf("the %s does not say what the locks promise:\n%s", name, b.String())
		}
	}
}

// Two servers of one kind keep to pictures of their own, whatever others there
// are; one kind alone has nothing to be compared with.
func TestKindsApart(t *testing.T) {
	runs := kinds(t)
	for i := range runs {
		if runs[i].Algo == "redis-timestamp-del" {
			runs[i].Server.Version = "8.0.0"
		}
	}
	if n := len(sets(results.Groups(runs))); n != 3 {
		t.Errorf("%d sets of three servers, two of one kind; want 3", n)
	}
	for _, p := range pages(t, few(t)) {
		for _, r := range p.caption {
			if strings.Contains(r.text, "promise") {
				t.Errorf("%s compares the promises of one kind: %s", p.name, r.text)
			}
		}
	}
}
