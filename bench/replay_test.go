package bench

import (
	"regexp"
	"strings"
	"testing"
)

// A schedule that a play has printed comes about again, and another one is told apart.
func TestReplay(t *testing.T) {
	redisServer(t) // or there is nothing to play on
	first := call(t, "safety", "-algo", "redis-token", "-client", "goredis", "-fault", "pause", "-v")
	printed := regexp.MustCompile(`schedule: (\S+)`).FindStringSubmatch(first.stdout)
	if first.status != 0 || printed == nil {
		t.Fatalf("%+v", first)
	}
	if o := call(t, "safety", "-replay", printed[1]); o.status != 0 || !strings.Contains(o.stdout, "the steps came in the order of the schedule") {
		t.Errorf("%s: %+v", printed[1], o)
	}
	swapped := strings.Replace(printed[1], "B.called,B.granted", "B.granted,B.called", 1)
	if o := call(t, "safety", "-replay", swapped); o.status != exitFailure || !strings.Contains(o.stdout, "ANOTHER ORDER than the schedule: step 5 was B.called, not B.granted") {
		t.Errorf("%s: %+v", swapped, o)
	}
	for _, args := range []string{"-algo redis-token", "-short", "-soak 1s", "-out x.jsonl"} {
		oneLine(t, call(t, append([]string{"safety", "-replay", printed[1]}, strings.Fields(args)...)...), exitMisuse, "leave "+strings.Fields(args)[0]+" away")
	}
	oneLine(t, call(t, "safety", "-replay", "redis-token"), exitMisuse, "is no schedule")
}
