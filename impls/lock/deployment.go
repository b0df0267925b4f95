package lock

import (
	"fmt"
	"io"
	"net/url"
)

// A Deployment is where a lock service runs: what Variant.Open connects to.
// The zero value suits variants that need no server.
type Deployment struct {
	Kind  string     `json:"kind"`  // as in Needs
	Nodes []Endpoint `json:"nodes"` // one URL for each independent server
}

// An Endpoint is the URL of one server, which may hold a password. Printing and
// encoding it as a value replaces the password; only Reveal returns the whole.
// Neither fmt nor encoding/json asks a type in an unexported field or in the key
// of a map, so it must not be put there.
type Endpoint string

// Reveal returns the URL with its password, for the client library alone.
func (e Endpoint) Reveal() string { return string(e) }

// String is the URL with the password replaced by "xxxxx". An Endpoint that is
// no URL prints as a fixed text, since nobody can tell where its secret is.
func (e Endpoint) String() string {
	if e == "" {
		return ""
	}
	text, hosts := string(e), ""
	if e.Topology() != Single {
		// The list of hosts is parsed elsewhere, and one without a secret stands for it.
		if _, _, err := e.Split(); err != nil {
			return "(an address that is no URL)"
		}
		var before, after string
		before, hosts, after = cutHosts(text)
		text = before + "host" + after
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" && u.Path == "" {
		return "(an address that is no URL)"
	}
	u.RawQuery, u.Fragment = "", "" // some clients take credentials there
	if _, ok := u.User.Password(); u.User != nil && !ok {
		u.User = url.User("xxxxx") // who forgot the colon wrote a password here
	}
	if hosts != "" {
		u.Host = hosts
	}
	return u.Redacted()
}

// Format makes every verb print String.
func (e Endpoint) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.String()) }

// MarshalText encodes String.
func (e Endpoint) MarshalText() ([]byte, error) { return []byte(e.String()), nil }
