package results

import (
	"fmt"
	"strings"
)

// Schedule is c in one word: the lock, the fault, and who did what in which order, such as
// "redis-token/goredis:pause@A.called,A.granted,A.stopped,B.called,B.granted". It is "" of a
// cell in which nothing happened. What the driver only noted is left out, and so is when a
// holder was warned, since its guard ends beside all else.
func (c Cell) Schedule() string {
	var steps []string
	for _, e := range c.Events {
		if e.Did != "noted" && e.Did != "warned" {
			steps = append(steps, e.Who+"."+e.Did)
		}
	}
	if len(steps) == 0 {
		return ""
	}
	name := c.Algo
	if c.Client != "" {
		name += "/" + c.Client
	}
	return name + ":" + c.Fault + "@" + strings.Join(steps, ",")
}

// ParseSchedule is the lock, as algo/client or algo, the fault and the steps of a text that
// Schedule has made. The steps may be missing, which is any order.
func ParseSchedule(text string) (lock, fault, steps string, err error) {
	name, steps, _ := strings.Cut(strings.TrimSpace(text), "@")
	lock, fault, ok := strings.Cut(name, ":")
	if !ok || lock == "" || fault == "" || strings.ContainsAny(name, "*?[ ,") {
		return "", "", "", fmt.Errorf("%q is no schedule: want LOCK/CLIENT:FAULT@STEPS, as safety -v prints it", text)
	}
	return lock, fault, steps, nil
}
