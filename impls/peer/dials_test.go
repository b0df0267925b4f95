package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
)

// A link is a connection that tells of what is done with it.
type link struct {
	net.Conn
	wrote  func()
	closed func()
}

func (l link) Write(p []byte) (int, error) { l.wrote(); return len(p), nil }
func (l link) Close() error                { l.closed(); return nil }

// The library answers the end of a connection with commands on the others.
func TestNothingIsSentOnceConnectionsEnd(t *testing.T) {
	var (
		d     dials
		conns []net.Conn
		sent  int
		ended int
	)
	dial := d.through(func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
		return link{
			wrote: func() { sent++ },
			closed: func() {
				ended++
				for _, c := range conns {
					if _, err := c.Write([]byte("SET")); !errors.Is(err, net.ErrClosed) {
						t.Errorf("a write while connections end: %v, want %v", err, net.ErrClosed)
					}
				}
			},
		}, nil
	})
	for range 3 {
		c, err := dial(t.Context(), "", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		if _, err := c.Write([]byte("SET")); err != nil {
			t.Errorf("a write on an open connection: %v", err)
		}
	}
	d.close()
	if sent != len(conns) || ended != len(conns) {
		t.Errorf("%d writes and %d ends, want %d of each", sent, ended, len(conns))
	}
	if c, err := dial(t.Context(), "", nil, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection after the end: %v, error %v, want %v", c, err, net.ErrClosed)
	}
}
