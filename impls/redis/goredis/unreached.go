package goredis

import (
	"net"
	"time"
)

// unreached stands for a connection that could not be made. All it does is to
// return why.
type unreached struct{ err error }

func (u *unreached) Read([]byte) (int, error)  { return 0, u.err }
func (u *unreached) Write([]byte) (int, error) { return 0, u.err }
func (u *unreached) Close() error              { return nil }

func (u *unreached) LocalAddr() net.Addr  { return &net.TCPAddr{} }
func (u *unreached) RemoteAddr() net.Addr { return &net.TCPAddr{} }

func (u *unreached) SetDeadline(time.Time) error      { return nil }
func (u *unreached) SetReadDeadline(time.Time) error  { return nil }
func (u *unreached) SetWriteDeadline(time.Time) error { return nil }
