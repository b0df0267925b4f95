package lock_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
)

const canary = "s3cr3t-canary"

// Whatever prints an Endpoint hides its password.
func TestEndpointHides(t *testing.T) {
	urls := []string{
		"redis://:" + canary + "@127.0.0.1:6379/1",
		"redis://ann:" + canary + "@h",
		"rediss://ann:" + canary + "@h:1?password=" + canary,
		"redis://h:1#" + canary,
		"postgres://u:" + canary + "@h/db?sslmode=disable",
		"://" + canary,
		"u:" + canary + "@tcp(h:1)/db", // the form of a MySQL driver, which is no URL
		"redis://:" + canary + "%zz@h",
	}
	for _, url := range urls {
		e := lock.Endpoint(url)
		for _, flags := range []string{"", "+", "-", "#", " ", "0", "40", ".3", "-40.10", "[1]"} {
			for verb := 'A'; verb <= 'z'; verb++ {
				// Of what is no error w, and of what is no pointer p, fmt prints
				// raw without asking Format; vet refuses both. T is the type.
				if verb > 'Z' && verb < 'a' || strings.ContainsRune("pwT", verb) {
					continue
				}
				format := "%" + flags + string(verb)
				for _, v := range []any{e, &e, []lock.Endpoint{e}, lock.Deployment{Nodes: []lock.Endpoint{e}}, map[lock.Endpoint]int{e: 1}} {
					if out := fmt.Sprintf(format, v); strings.Contains(out, canary) {
						t.Errorf("%s of a %T prints the password of %q", format, v, url)
					}
				}
			}
		}
		for name, out := range map[string]string{
			"String": e.String(), "Print": fmt.Sprint(e), "Println": fmt.Sprintln(e),
			"error": fmt.Errorf("cannot reach %v: %w", e, fmt.Errorf("%s", e)).Error(),
		} {
			if strings.Contains(out, canary) {
				t.Errorf("%s prints the password of %q", name, url)
			}
		}
		b, err := json.Marshal(lock.Deployment{Nodes: []lock.Endpoint{e}})
		if err != nil || strings.Contains(string(b), canary) {
			t.Errorf("JSON of %q: %v, or it holds the password", url, err)
		}
		if e.Reveal() != url {
			t.Errorf("Reveal of %q is another", url)
		}
	}
}

func TestEndpointString(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"redis://h:1/2":             "redis://h:1/2",
		"redis://:p@h:1/2":          "redis://:xxxxx@h:1/2",
		"redis://u:p@h":             "redis://u:xxxxx@h",
		"unix:///run/redis.sock":    "unix:///run/redis.sock",
		"redis://h?db=1#x":          "redis://h",
		"redis://h:port":            "(an address that is no URL)",
		"redis://[fe80::1%25eth]:1": "redis://[fe80::1%25eth]:1",
	} {
		if got := lock.Endpoint(in).String(); got != want {
			t.Errorf("String of %q is %q, want %q", in, got, want)
		}
	}
}
