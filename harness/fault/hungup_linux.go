package fault

import (
	"net"

	"golang.org/x/sys/unix"
)

// hungUp reports whether the other end of c has closed it, even where what it sent before
// has not been read.
func hungUp(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(list, 0)
		gone = err == nil && n > 0
	})
	return gone || err != nil // closed on this side
}
