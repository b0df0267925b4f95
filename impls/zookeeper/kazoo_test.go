package zookeeper_test

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// BenchmarkKazoo lets 16 processes compete for one key through kazoo's Lock for a
// second, then 16 clients of ours through zk-sequential, and then 16 owners of one
// client, on one server; one iteration does so once, every second time in the
// other order. It reports the medians of the grants a second and of ours by kazoo's.
func BenchmarkKazoo(b *testing.B) {
	const contenders, second = 16, 1
	s := serve(b, lock.Single)
	program := python(b)
	var processes []*worker
	for range contenders {
		processes = append(processes, work(b, exec.Command(program, "testdata/rate.py", hosts(s), "/lb-rate-kazoo")))
	}
	var clients []lock.Locker
	for range contenders {
		clients = append(clients, open(b, s, "zk-sequential", lock.Config{}))
	}
	one := slices.Repeat(clients[:1], contenders)

	foreign := func() float64 {
		var sum atomic.Int64
		var all sync.WaitGroup
		for _, p := range processes {
			all.Go(func() { sum.Add(int64(p.round(b, second))) })
		}
		all.Wait()
		return float64(sum.Load()) / second
	}
	ours := func(key string, by []lock.Locker) float64 {
		var sum atomic.Int64
		var all sync.WaitGroup
		end := time.Now().Add(second * time.Second)
		for _, l := range by {
			all.Go(func() {
				for time.Now().Before(end) {
					lease, err := l.Acquire(b.Context(), key)
					if err == nil {
						err = lease.Release(b.Context())
					}
					if err != nil {
						b.Error(err)
						return
					}
					sum.Add(1)
				}
			})
		}
		all.Wait()
		return float64(sum.Load()) / second
	}
	var theirs, many, single, ratio, ratio1 []float64
	backwards := false
	for b.Loop() {
		rounds := []func(){
			func() { theirs = append(theirs, foreign()) },
			func() { many = append(many, ours("lb:{rate}:many", clients)) },
			func() { single = append(single, ours("lb:{rate}:one", one)) },
		}
		if backwards {
			slices.Reverse(rounds)
		}
		backwards = !backwards
		for _, round := range rounds {
			round()
		}
		last := len(theirs) - 1
		ratio = append(ratio, many[last]/theirs[last])
		ratio1 = append(ratio1, single[last]/theirs[last])
	}
	b.ReportMetric(median(theirs), "kazoo-acq/s")
	b.ReportMetric(median(many), "16-clients-acq/s")
	b.ReportMetric(median(single), "1-client-acq/s")
	b.ReportMetric(median(ratio), "16-clients/kazoo")
	b.ReportMetric(median(ratio1), "1-client/kazoo")
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// A worker is a process that answers each line with a number.
type worker struct {
	in  io.Writer
	out *bufio.Scanner
}

// work starts cmd until the end of the benchmark and waits for its first line.
func work(b *testing.B, cmd *exec.Cmd) *worker {
	b.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // how it ends says nothing
		kill.Stop()
	})
	w := &worker{in, bufio.NewScanner(out)}
	w.hear(b)
	return w
}

func (w *worker) round(b *testing.B, seconds int) int {
	b.Helper()
	if _, err := fmt.Fprintln(w.in, seconds); err != nil {
		b.Error(err)
		return 0
	}
	return w.hear(b)
}

func (w *worker) hear(b *testing.B) int {
	b.Helper()
	if !w.out.Scan() {
		b.Error("kazoo has ended")
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(w.out.Text()))
	if err != nil {
		b.Error(err)
	}
	return n
}
