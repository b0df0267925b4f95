package harness_test

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// BenchmarkOverhead measures what the harness adds to each acquire, hold and
// release, on the fastest lock there is and with one owner: rounds of the bare
// lock and of a run take turns.
func BenchmarkOverhead(b *testing.B) {
	const ops = 100_000
	v := variant(b, "local-mutex", "")
	locker, err := v.Open(b.Context(), lock.Deployment{}, lock.Config{}.Filled())
	if err != nil {
		b.Fatal(err)
	}
	defer locker.Close()
	var bare, run []float64
	for range max(5, b.N/ops) {
		start := time.Now()
		for range ops {
			lease, err := locker.Acquire(b.Context(), "key")
			if err != nil {
				b.Fatal(err)
			}
			if err := lease.Release(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		bare = append(bare, float64(time.Since(start))/ops)
		r, err := new(harness.Rig).Run(b.Context(), harness.Trial{Variant: v, Load: results.Load{Owners: 1, Ops: ops, Warmup: ms(10)}})
		if err != nil {
			b.Fatal(err)
		}
		run = append(run, 1e9/r.Metrics["acq/s"])
	}
	b.ReportMetric(0, "ns/op") // of rounds, it would mean nothing
	b.ReportMetric(median(bare), "bare-ns/op")
	b.ReportMetric(median(run), "harness-ns/op")
	b.ReportMetric(median(run)-median(bare), "overhead-ns/op")
}

// BenchmarkAgainstRedisBenchmark compares what 64 owners of redis-token, each on
// a key of its own, get through with what redis-benchmark reaches for the same
// two commands over as many connections: rounds of both take turns on one
// server. Pairs of redis-benchmark are its two rates one after the other,
// 1/(1/SET + 1/EVALSHA). Most of its SETs find the key and most of its scripts
// do not, which is less work than a lock's; the ratio errs against lockbench.
func BenchmarkAgainstRedisBenchmark(b *testing.B) {
	tool, err := exec.LookPath("redis-benchmark")
	if err != nil {
		b.Skip("SKIPPED, NOT MEASURED: redis-benchmark is not installed")
	}
	for _, client := range []string{"goredis", "redigo"} {
		b.Run("client="+client, func(b *testing.B) {
			r := rig(b, true)
			v := variant(b, "redis-token", client)
			host, port, _ := strings.Cut(strings.TrimPrefix(r.Server.Deployment.Nodes[0].Reveal(), "redis://"), ":")
			port, _, _ = strings.Cut(port, "/")
			tool := func(args ...string) float64 {
				args = append([]string{"-h", host, "-p", port, "-c", "64", "-n", "100000", "-r", "64", "--csv"}, args...)
				out, err := exec.CommandContext(b.Context(), tool, args...).CombinedOutput()
				if err != nil {
					b.Fatalf("redis-benchmark: %v: %s", err, out)
				}
				return rate(b, string(out))
			}
			sha := loadScript(b, r)
			var ratios []float64
			for range max(3, b.N/100_000) {
				set := tool("SET", "lb:{0123456789abcdef}:__rand_int__", "0123456789abcdef0123456789abcdef", "NX", "PX", "10000")
				eval := tool("EVALSHA", sha, "1", "lb:{0123456789abcdef}:__rand_int__", "0123456789abcdef0123456789abcdef")
				run, err := r.Run(b.Context(), harness.Trial{Variant: v, Load: results.Load{
					Owners: 64, Keys: 64, OwnKeys: true, Warmup: ms(200), For: 2 * time.Second,
				}})
				if err != nil {
					b.Fatal(err)
				}
				if n := run.Metrics["errors"]; n != 0 {
					b.Fatalf("%v errors: %v", n, run.Valid.Reasons)
				}
				pairs := 1 / (1/set + 1/eval)
				ratios = append(ratios, run.Metrics["acq/s"]/pairs)
				b.Logf("redis-benchmark SET %.0f/s, EVALSHA %.0f/s, pairs %.0f/s; lockbench %.0f/s", set, eval, pairs, run.Metrics["acq/s"])
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(ratios), "of-redis-benchmark")
		})
	}
}

// loadScript makes the server know the script that redis-token releases with,
// by using it once, and returns its digest.
func loadScript(b *testing.B, r *harness.Rig) string {
	b.Helper()
	_, err := r.Run(b.Context(), harness.Trial{Variant: variant(b, "redis-token", "redigo"), Load: results.Load{Owners: 1, Ops: 1}})
	if err != nil {
		b.Fatal(err)
	}
	source, err := os.ReadFile("../impls/redis/compare_del.lua")
	if err != nil {
		b.Fatal(err)
	}
	sum := sha1.Sum(source)
	return hex.EncodeToString(sum[:])
}

// rate reads the requests per second out of redis-benchmark's CSV.
func rate(b *testing.B, csv string) float64 {
	m := regexp.MustCompile(`(?m)^"[^"]*","([0-9.]+)"`).FindAllStringSubmatch(csv, -1)
	for _, row := range slices.Backward(m) {
		if v, err := strconv.ParseFloat(row[1], 64); err == nil && v > 0 {
			return v
		}
	}
	b.Fatalf("no rate in %q", csv)
	return 0
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}
