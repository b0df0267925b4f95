package wire

import (
	"fmt"
	"strings"
)

// Beside names what a lock keeps for key in another key of the same slot, which a
// script with both needs. The name begins with key, so that a user who may use the keys
// that begin with some text may use it, too. The separators differ so that "k" and
// "k{k}" have names of their own.
//
// A key with braces that make no tag has a name that does not begin with it, because no
// other one is hashed by the whole of such a key. The empty key, and a key that has a
// "}" but no tag, have no name in their slot at all; their locks work on a single server
// only.
func Beside(key, what string) string {
	switch {
	case tagOf(key) != key:
		return key + "/" + what
	case strings.ContainsAny(key, "{}"):
		return "{" + key + "}:" + what
	}
	return key + "{" + key + "}:" + what
}

// OwnKeys are the rules of a Redis ACL for the keys that begin with prefix and for what
// [Beside] names.
func OwnKeys(prefix string) []string { return []string{"~" + pattern(prefix)} }

// Named are the rules of a Redis ACL, of keys if sign is "~" and of channels if it is
// "&", for the names NAME:{KEY} of the keys that begin with prefix. A key that has a
// brace itself is named NAME:KEY.
func Named(sign, name, prefix string) []string {
	plain := sign + name + ":" + pattern(prefix)
	if strings.Contains(prefix, "{") {
		return []string{plain}
	}
	return []string{sign + name + ":{" + pattern(prefix), plain}
}

// pattern is prefix and anything behind it, as a glob of Redis.
func pattern(prefix string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(prefix) + "*"
}

// Explain adds to the refusal of a user who lacks rights which keys and channels the
// lock uses. Any other error it returns as it is.
func (s *Session) Explain(err error) error {
	if err == nil {
		return nil
	}
	// The second is what Redis 7.0 says within a script.
	if text := err.Error(); !strings.Contains(text, "NOPERM") && !strings.Contains(text, "user executing the script") {
		return err
	}
	return fmt.Errorf("%w (beside its commands the lock needs %s, where PREFIX is what its keys begin with)",
		err, strings.Join(s.Grants("PREFIX"), " "))
}
