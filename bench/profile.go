package bench

import (
	"embed"
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// shipped are the scenarios that come with the program, NAME.yaml, and the claims
// that their runs decide, NAME.claims.yaml, where there are some.
//
//go:embed *.yaml
var shipped embed.FS

// profileNames are the profiles in the order in which a user meets them: that of
// `make plots`, what tries it out in a minute, and those of `make bench-redis` and `make bench-engines`.
func profileNames() []string {
	return []string{"quick", "smoke", "redis", "engines"}
}

// profile is the scenario that comes with the program under name.
func profile(name string) ([]byte, error) {
	if !slices.Contains(profileNames(), name) {
		return nil, misuse("there is no profile %q; there are %s", name, words(profileNames(), "and"))
	}
	return shipped.ReadFile(name + ".yaml")
}

// profileClaims are the claims that the runs of the profile decide.
func profileClaims(name string) ([]byte, error) {
	if _, err := profile(name); err != nil {
		return nil, err
	}
	text, err := shipped.ReadFile(name + ".claims.yaml")
	if errors.Is(err, fs.ErrNotExist) {
		with := slices.DeleteFunc(profileNames(), func(other string) bool {
			_, err := fs.Stat(shipped, other+".claims.yaml")
			return err != nil
		})
		return nil, misuse("the profile %q comes with no claims; those with claims are %s", name, words(with, "and"))
	}
	return text, err
}

// words joins names as a sentence has them: "a, b and c" by the conjunction "and".
func words(names []string, conjunction string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " " + conjunction + " " + names[last]
}
