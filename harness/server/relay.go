package server

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// relayName is the program by which the container engine publishes a port.
const relayName = "docker-proxy"

// Relays lists the processes that carry the bytes between this machine and the
// containers that Start started: the engine has one for each published port. They are
// neither the server nor somebody else at work, but the way to the server. The list is
// empty for other sources, and where the engine publishes ports without a process.
func (s *Server) Relays() (list []Process) {
	if s.Source != Docker {
		return nil
	}
	var ports []string
	for _, n := range s.Deployment.Nodes {
		if u, err := url.Parse(n.String()); err == nil {
			ports = append(ports, u.Port())
		}
	}
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range names {
		if b, err := os.ReadFile(name); err != nil || strings.TrimSpace(string(b)) != relayName {
			continue
		}
		b, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline")) // of a process that has just ended there is nothing to read
		args := strings.Split(string(b), "\x00")
		at := slices.Index(args, "-host-port") + 1
		if at == 0 || at == len(args) || !slices.Contains(ports, args[at]) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			continue
		}
		if p, ok := FindProcess(pid); ok {
			list = append(list, p)
		}
	}
	return list
}
