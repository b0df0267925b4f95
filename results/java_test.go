package results

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hdrJar finds Java and the HdrHistogram library of Java, or ends the test.
func hdrJar(t *testing.T) (java, jar string) {
	t.Helper()
	const get = "; get it with scripts/servers hdr"
	java, err := exec.LookPath("java")
	if err != nil {
		lacking(t, "hdr", "no java in PATH"+get)
	}
	// A JRE runs no source files.
	if _, err := exec.LookPath("javac"); err != nil {
		lacking(t, "hdr", "no JDK (javac) in PATH"+get)
	}
	for _, pattern := range []string{
		"/usr/share/java/*[Hh]dr[Hh]istogram*.jar",
		"/usr/local/share/java/*[Hh]dr[Hh]istogram*.jar",
		"/opt/homebrew/share/java/*[Hh]dr[Hh]istogram*.jar",
	} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return java, found[0]
		}
	}
	lacking(t, "hdr", "no HdrHistogram*.jar under /usr/share/java"+get)
	return "", ""
}

// TestJavaReadsARun: a stored line decodes with nothing but a JSON parser and
// an HdrHistogram reader of another language, to the same buckets and the same
// percentiles.
func TestJavaReadsARun(t *testing.T) {
	java, jar := hdrJar(t)
	const limit = int64(13 * time.Second)
	run := sample(t, "for-java", 1234)
	for name, values := range map[string][]int64{
		Hold:     waits(rand.New(rand.NewPCG(9, 9)), 100_000, limit),
		Release:  {1_000_000},
		Bypass:   {0, 0, 0, 0, 0, 0, 0, 0, 1, 40},
		Failed:   {0},
		Response: {0, 1, 2047, 2048, 4095, 4096, limit - 1, limit},
	} {
		if err := run.Put(name, fill(t, limit, values...)); err != nil {
			t.Fatal(err)
		}
	}
	// The narrowest histogram that there is.
	if err := run.Put(Handoff, fill(t, 1, 0, 1, 2)); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "runs.jsonl")
	write(t, writer(t, name), run)

	cmd := exec.CommandContext(t.Context(), java, "-XX:TieredStopAtLevel=1", "-cp", jar, "testdata/ReadRun.java")
	cmd.Stdin = strings.NewReader(readFile(t, name))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("java: %v\n%s", err, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	heads, buckets := make(map[string]string), make(map[string][]string)
	for _, l := range lines {
		name, rest, _ := strings.Cut(l, " ")
		if bucket, ok := strings.CutPrefix(rest, "bucket "); ok {
			buckets[name] = append(buckets[name], bucket)
			continue
		}
		heads[name] = rest
	}
	if len(heads) != len(run.Hist) {
		t.Errorf("java found %d histograms, want %d", len(heads), len(run.Hist))
	}
	for name := range run.Hist {
		h, err := run.Histogram(name)
		if err != nil {
			t.Fatal(err)
		}
		compareWithJava(t, name, h, heads[name], buckets[name])
	}
}

// compareWithJava takes what ReadRun printed of h. Java knows only buckets, so
// its values are cut to the exact bounds as ours are.
func compareWithJava(t *testing.T, name string, h *Histogram, head string, buckets []string) {
	t.Helper()
	fields := strings.Fields(head)
	if len(fields) != 14 {
		t.Errorf("%s: java printed %q", name, head)
		return
	}
	for i := 0; i < len(fields); i += 2 {
		got, err := strconv.ParseInt(fields[i+1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if fields[i] != "count" {
			got = min(max(got, h.Exact.Min), h.Exact.Max)
		}
		want := map[string]int64{
			"count": h.Exact.Count,
			"p50":   h.Quantile(50), "p90": h.Quantile(90), "p99": h.Quantile(99), "p99.9": h.Quantile(99.9),
			"min": h.Exact.Min, "max": h.Exact.Max,
		}
		if w, ok := want[fields[i]]; !ok || got != w {
			t.Errorf("%s: java reads %s = %d, go %d", name, fields[i], got, w)
		}
	}
	var want []string
	for v, n := range h.Bars() {
		want = append(want, fmt.Sprint(v, " ", n))
	}
	if len(buckets) != len(want) {
		t.Fatalf("%s: java reads %d buckets, go %d", name, len(buckets), len(want))
	}
	for i := range want {
		if i == len(want)-1 { // ours ends at the exact maximum
			edge, n, _ := strings.Cut(buckets[i], " ")
			if v, err := strconv.ParseInt(edge, 10, 64); err != nil || v < h.Exact.Max || !h.hdr.ValuesAreEquivalent(v, h.Exact.Max) {
				t.Errorf("%s: java's last bucket ends at %s, go's holds %d", name, edge, h.Exact.Max)
			}
			buckets[i] = fmt.Sprint(h.Exact.Max, " ", n)
		}
		if buckets[i] != want[i] {
			t.Errorf("%s: bucket %d is %q in java, %q in go", name, i, buckets[i], want[i])
		}
	}
}
