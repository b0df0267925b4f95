package zookeeper

import (
	"math"
	"regexp"
	"testing"
)

func TestContenderIn(t *testing.T) {
	for _, c := range []struct {
		name   string
		seq    int32
		shared bool
		ok     bool
	}{
		{"_c_01234567-89ab-4def-8123-456789abcdef-lock-0000000007", 7, false, true},
		{"0123456789abcdef0123456789abcdef__lock__0000000008", 8, false, true},
		{"0123456789abcdef0123456789abcdef__rlock__0000000009", 9, true, true},
		{"_c_01234567-89ab-4def-8123-456789abcdef-__READ__0000000001", 1, true, true},
		{"_c_01234567-89ab-4def-8123-456789abcdef-__WRIT__0000000002", 2, false, true},
		{"_c_01234567-89ab-4def-8123-456789abcdef-lock--2147483648", math.MinInt32, false, true},
		{"lock-0000000003", 3, false, true},
		{"lock-", 0, false, false}, {"cond", 0, false, false}, {"lock-x", 0, false, false},
		{"0000000003", 0, false, false}, {"lock-99999999999", 0, false, false},
	} {
		got, ok := contenderIn(c.name)
		if ok != c.ok || ok && (got.seq != c.seq || got.shared != c.shared || got.name != c.name) {
			t.Errorf("%s is read as %+v, %t", c.name, got, ok)
		}
	}
}

// The counter of a node is a signed number of 32 bits that goes on past its end.
func TestInOrder(t *testing.T) {
	list := inOrder([]string{"c-lock--2147483647", "d-lock-2147483646", "b-lock--2147483648", "a-lock-2147483647", "other"})
	var got string
	for _, c := range list {
		got += c.name[:1]
	}
	if got != "dabc" {
		t.Errorf("the order is %s, want dabc", got)
	}
}

func TestBefore(t *testing.T) {
	list := inOrder([]string{"a__READ__0000000001", "b__READ__0000000002", "c__WRIT__0000000003", "d__READ__0000000004", "e__WRIT__0000000005"})
	for _, c := range []struct {
		me     int
		shared bool
		at     int
		sure   bool
	}{
		{0, true, -1, false}, {1, true, -1, false}, {1, false, 0, false}, {2, false, 1, false}, {3, true, 2, true}, {4, false, 3, false},
	} {
		at, sure, there := before(list, list[c.me].name, c.shared)
		if at != c.at || sure != c.sure || !there {
			t.Errorf("%s waits for %d (sure %t, there %t), want %d, %t", list[c.me].name, at, sure, there, c.at, c.sure)
		}
	}
	if _, sure, _ := before(inOrder([]string{"a__WRIT__0000000001", "b__WRIT__0000000002"}), "b__WRIT__0000000002", false); sure {
		t.Error("a writer is sure to follow a writer, which may become a reader")
	}
	if _, _, there := before(list, "x__WRIT__0000000009", false); there {
		t.Error("one that is not there was found")
	}
}

func TestFresh(t *testing.T) {
	for want, s := range map[string]style{
		`^[0-9a-f]{12}4[0-9a-f]{19}__lock__$`:                                               kazooLock(),
		`^_c_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-lock-$`:    curatorLock(),
		`^_c_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-__READ__$`: curatorRead(),
	} {
		if got := s.fresh(); !regexp.MustCompile(want).MatchString(got) || got == s.fresh() {
			t.Errorf("%s does not match %s, or came twice", got, want)
		}
	}
}
