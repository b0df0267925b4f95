package server

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
)

func TestFind(t *testing.T) {
	s := start(t, lock.Needs{Kind: "redis"}, Options{Source: Binary})
	given := s.Deployment.Nodes[0]
	list := Find(t.Context(), "redis", Options{URLs: map[string][]lock.Endpoint{"redis": {given, "redis://:CANARY@127.0.0.1:1"}}})
	var order []Source
	for _, f := range list {
		order = append(order, f.Source)
		if f.OK != (f.Hint == "") || f.OK && (f.Product == "" || f.Version == "" && f.Source != Embedded || f.Where == "") {
			t.Errorf("incomplete: %+v", f)
		}
		if strings.Contains(f.Hint, "\n") {
			t.Errorf("more than one line: %q", f.Hint)
		}
	}
	if want := []Source{URL, URL, Binary, Docker, Embedded}; !slices.Equal(order, want) {
		t.Fatalf("sources %v, want %v", order, want)
	}
	if !list[0].OK || list[0].Version != s.Version || list[1].OK || !list[2].OK || list[2].Version != s.Version || !list[4].OK {
		t.Errorf("%+v", list)
	}
	b, err := json.Marshal(list)
	if err != nil || strings.Contains(string(b), "CANARY") {
		t.Errorf("%s, %v", b, err)
	}
	t.Log(string(b))
	if l := Find(t.Context(), "nosuch", Options{}); l != nil {
		t.Errorf("%+v", l)
	}
}

func TestFindNothing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, f := range Find(t.Context(), "redis", Options{Images: map[string]string{"redis": "lockbench.invalid/no-such:image"}}) {
		if f.OK != (f.Source == Embedded) {
			t.Errorf("%+v", f)
		}
		if !f.OK && !strings.Contains(f.Hint, "with: ") {
			t.Errorf("no command that gets it: %+v", f)
		}
	}
	_, err := Start(t.Context(), lock.Needs{Kind: "redis"}, Options{Source: Binary})
	wantError(t, err, "server: none found for redis (binary: neither redis-server nor valkey-server is on PATH")
	if !errors.Is(err, ErrMissing) {
		t.Errorf("%v is no ErrMissing", err)
	}
}
