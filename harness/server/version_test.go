//go:build unix

package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is no server, or does not say so, is named with what it said.
func TestVersionAfter(t *testing.T) {
	for script, want := range map[string]string{
		"echo 'thing: v1.2.3'; echo more":       "",
		"echo 'another 1.2.3'":                  `is no thing: --version says "another 1.2.3"`,
		"echo 'thing: v1.2.3'; exit 3":          `is no thing: --version says "thing: v1.2.3"`,
		"exit 0":                                `is no thing: --version says "it said nothing"`,
		"test $SET = yes && echo thing: v1.2.3": "",
	} {
		path := filepath.Join(t.TempDir(), "thing")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		version, err := versionAfter(t.Context(), "thing", "thing: v", path, "SET=yes")
		switch {
		case want == "" && (err != nil || version != "1.2.3"):
			t.Errorf("%s: version %q, %v", script, version, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %s", script, err, want)
		}
	}
}
