package results

import "testing"

func TestScheduleIsReadBack(t *testing.T) {
	c := Cell{Algo: "redis-token", Client: "goredis", Fault: "pause", Events: []CellEvent{
		{Who: "A", Did: "granted"}, {Did: "noted"}, {Who: "A", Did: "stopped"}, {Who: "A", Did: "warned"}, {Who: "B", Did: "granted"},
	}}
	const want = "redis-token/goredis:pause@A.granted,A.stopped,B.granted"
	if got := c.Schedule(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	lock, fault, steps, err := ParseSchedule(want)
	if lock != "redis-token/goredis" || fault != "pause" || steps != "A.granted,A.stopped,B.granted" || err != nil {
		t.Errorf("read back: %q %q %q %v", lock, fault, steps, err)
	}
	if (Cell{Algo: "redis-token", Fault: "pause"}).Schedule() != "" {
		t.Error("a cell in which nothing happened has a schedule")
	}
	for _, text := range []string{"", "redis-token", "redis-*:pause", ":pause", "redis-token:", "a b:c"} {
		if _, _, _, err := ParseSchedule(text); err == nil {
			t.Errorf("%q is taken for a schedule", text)
		}
	}
}
