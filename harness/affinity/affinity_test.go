package affinity

import "testing"

func TestText(t *testing.T) {
	for want, cpus := range map[string][]int{
		"": nil, "0": {0}, "0-1": {0, 1}, "0-3,8": {8, 3, 2, 1, 0, 0}, "1,3,5-6": {6, 5, 3, 1},
	} {
		if got := Text(cpus); got != want {
			t.Errorf("Text(%v) = %q, want %q", cpus, got, want)
		}
	}
}
