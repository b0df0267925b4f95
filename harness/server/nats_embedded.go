package server

import (
	"context"
	"os"
)

// embeddedNATS is the NATS that is built into this program, if o says so. It is NATS's
// own server, not an imitation, and is asked for its version and started as the
// installed one is.
func embeddedNATS(ctx context.Context, o Options) (installed, error) {
	setting := o.Embeds["nats"]
	if setting == "" {
		return installed{}, missing("is not built into this program; get the server with: " + natsGet)
	}
	self, err := os.Executable()
	if err != nil {
		return installed{}, err
	}
	return natsInstalled(ctx, self, o, setting)
}
