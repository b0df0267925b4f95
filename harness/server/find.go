package server

import "context"

// Found is one line of what this machine has.
type Found struct {
	Kind    string `json:"kind"`
	Product string `json:"product,omitempty"`
	Version string `json:"version,omitempty"`
	Source  Source `json:"source"`
	Where   string `json:"where,omitempty"` // address without password, path, image
	OK      bool   `json:"ok"`
	Hint    string `json:"hint,omitempty"` // if not OK: what is not there and the one command that gets it
}

// Find looks at every source of kind, in the order in which Start tries them,
// and starts nothing. It connects to the URLs in o and to a local container
// engine, nowhere else. A kind that nobody knows has no sources.
func Find(ctx context.Context, kind string, o Options) []Found {
	k, ok := kindOf(kind)
	if !ok {
		return nil
	}
	return k.find(ctx, o)
}
