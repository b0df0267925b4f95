package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/results"
)

// A job is one arrival at a queue with one server. Times are in ns on one clock.
type job struct {
	at      int64 // when it asks
	service int64 // for how long it keeps the server
	counts  bool  // its wait is part of the mean
}

// lindley is the mean wait, in ns, of those jobs that count, where one server takes all of
// them in the order in which they ask, and how many count (D. V. Lindley, The theory of
// queues with a single server, 1952). The server is free from the instant free on. It sorts
// jobs.
func lindley(jobs []job, free int64) (mean float64, n int64) {
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(a.at, b.at) })
	var sum int64
	for _, j := range jobs {
		begin := max(j.at, free)
		free = begin + j.service
		if j.counts {
			sum += begin - j.at
			n++
		}
	}
	return float64(sum) / float64(max(n, 1)), n
}

// planned are the jobs as the plan of t has them. Those due in its window count. Each
// keeps the server for its hold and overhead.
func planned(t harness.Trial, overhead time.Duration) []job {
	var jobs []job
	for _, a := range t.Arrivals() {
		jobs = append(jobs, job{int64(a.Due), int64(a.Hold + overhead), a.Due >= t.Load.Warmup})
	}
	return jobs
}

// achieved are the jobs as they came about, from the first that was granted in the window:
// each asks when its owner called, and keeps the server for as long as it did hold, and
// overhead. The server is free from the instant free on: then the first was granted, less
// what an acquire takes anyway. So what queued up in the warm-up, of which the trace does
// not tell, is there. An arrival that was granted after the window is as planned.
func achieved(t harness.Trial, acquire, overhead time.Duration, trace []harness.Trace) (jobs []job, free int64) {
	seen := make(map[int64]harness.Trace, len(trace))
	for _, o := range trace {
		seen[o.Due+int64(t.Load.Warmup)] = o
	}
	if len(trace) > 0 { // in the order of the grants
		free = trace[0].Granted + int64(t.Load.Warmup-acquire)
	}
	for _, j := range planned(t, overhead) {
		o, ok := seen[j.at]
		switch {
		case ok:
			j.at = o.Called + int64(t.Load.Warmup)
			j.service = o.Freed - o.Granted + int64(overhead)
		case !j.counts:
			continue // granted before the window
		}
		jobs = append(jobs, j)
	}
	return jobs, free
}

// moments are the first two of a service time, in s and s²: a hold, which is fixed or
// exponential, and an overhead that is always the same.
func moments(hold results.Dist, overhead time.Duration) (mean, square float64) {
	mean = (hold.Mean + overhead).Seconds()
	square = mean * mean
	if hold.Kind == "exp" {
		square += hold.Mean.Seconds() * hold.Mean.Seconds() // the variance of a hold
	}
	return mean, square
}

// pollaczekKhinchine is the mean wait in s of a queue with Poisson arrivals, rate of them
// a second, and one server: λE[S²]/(2(1−ρ)), with ρ = λE[S] below 1 (F. Pollaczek, 1930;
// A. Khinchine, 1932). Mean and square are the moments of the service time S, in s and s².
// With a fixed S it is M/D/1, with an exponential one M/M/1.
func pollaczekKhinchine(rate, mean, square float64) float64 {
	return rate * square / (2 * (1 - rate*mean))
}
