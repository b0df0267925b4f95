package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Process is one operating-system process, told from a later one of the same id
// by its start time.
type Process struct {
	PID   int
	Start uint64 // clock ticks between the boot and its start, field 22 of /proc/PID/stat
}

// Alive reports whether p still runs; a zombie does not.
func (p Process) Alive() bool {
	state, start, err := stat(filepath.Join(procDir(p.PID), "stat"))
	return err == nil && start == p.Start && state != 'Z' && state != 'X'
}

// Stopped reports whether every thread of p is stopped by a signal.
func (p Process) Stopped() bool {
	tasks, _ := filepath.Glob(filepath.Join(procDir(p.PID), "task", "*", "stat"))
	for _, t := range tasks {
		// A thread that ended between the listing and the reading is no reason
		// to say no; if all did, Alive says it.
		if state, _, err := stat(t); err == nil && state != 'T' {
			return false
		}
	}
	return len(tasks) > 0 && p.Alive()
}

// CPU is the CPU time that p has used so far; ok is false where the system does not tell.
func (p Process) CPU() (used time.Duration, ok bool) {
	ns, ok := cpu([]Process{p})
	return time.Duration(ns), ok
}

// Ready is how long the threads of p that live have stood ready without a CPU to run on, in
// all; ok is false where the system does not tell.
func (p Process) Ready() (stood time.Duration, ok bool) {
	ns, ok := readyTime(p.PID)
	return time.Duration(ns), ok && p.Alive()
}

// Signal sends sig to p, or returns an error that wraps os.ErrProcessDone. It
// never reaches another process: the handle is taken first and the start time
// is compared after that, so that the id cannot change hands in between (where
// the system has process handles, as Linux has since 5.3).
func (p Process) Signal(sig os.Signal) error {
	h, err := os.FindProcess(p.PID)
	if err != nil {
		return fmt.Errorf("server: process %d: %w", p.PID, err)
	}
	defer func() { _ = h.Release() }()
	if !p.Alive() {
		return fmt.Errorf("server: process %d: %w", p.PID, os.ErrProcessDone)
	}
	if err := h.Signal(sig); err != nil {
		return fmt.Errorf("server: process %d: %w", p.PID, err)
	}
	return nil
}

// FindProcess looks up the process that has pid now; ok is false where the system
// does not show it.
func FindProcess(pid int) (p Process, ok bool) {
	_, start, err := stat(filepath.Join(procDir(pid), "stat"))
	return Process{PID: pid, Start: start}, err == nil
}

// children lists the processes that pid has started and not waited for, empty
// where the system does not tell.
func children(pid int) (list []Process) {
	files, _ := filepath.Glob(filepath.Join(procDir(pid), "task", "*", "children"))
	for _, f := range files {
		b, _ := os.ReadFile(f) // of a thread that has just ended there is nothing to read
		for field := range strings.FieldsSeq(string(b)) {
			if id, err := strconv.Atoi(field); err == nil {
				if p, ok := FindProcess(id); ok {
					list = append(list, p)
				}
			}
		}
	}
	return list
}

func procDir(pid int) string { return filepath.Join("/proc", strconv.Itoa(pid)) }

// stat reads state and start time from a stat file of proc(5). The name of the
// command may contain blanks and parentheses, so the fields are counted from
// its last one.
func stat(path string) (state byte, start uint64, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return 0, 0, fmt.Errorf("server: %s: unknown format", path)
	}
	start, err = strconv.ParseUint(f[19], 10, 64)
	return f[0][0], start, err
}

// cpu sums the CPU time in ns of list. Ok is false if the system does not tell,
// or list is empty.
func cpu(list []Process) (ns float64, ok bool) {
	for _, p := range list {
		v, ok := cpuTime(p.PID)
		if !ok || !p.Alive() {
			return 0, false
		}
		ns += v
	}
	return ns, len(list) > 0
}

// resident sums the memory in bytes that the processes of list have in RAM: Pss of
// /proc/PID/smaps_rollup, which divides a page among those that share it, as the processes
// of PostgreSQL do. One that has ended, as its short-lived workers do, has none. Ok is
// false if the system does not tell, or none of list is left.
func resident(list []Process) (bytes float64, ok bool) {
	left := 0
	for _, p := range list {
		text, err := os.ReadFile(filepath.Join(procDir(p.PID), "smaps_rollup"))
		_, rest, found := strings.Cut(string(text), "\nPss:")
		f := strings.Fields(rest)
		if !p.Alive() {
			continue
		}
		if err != nil || !found || len(f) < 2 {
			return 0, false
		}
		kB, err := strconv.ParseFloat(f[0], 64)
		if err != nil {
			return 0, false
		}
		bytes += kB * 1024
		left++
	}
	return bytes, left > 0
}
