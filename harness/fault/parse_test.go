package fault

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	const ms = time.Millisecond
	for text, want := range map[string]Fault{
		"pause@2s+300ms":                       Pause{At: 2 * time.Second, For: 300 * ms},
		"pause@0s+1s":                          Pause{For: time.Second},
		"pause@0s+1s:2":                        Pause{For: time.Second, Servers: Target{First: 2}},
		"kill@2s":                              Kill{At: 2 * time.Second},
		"kill@100ms:2":                         Kill{At: 100 * ms, Servers: Target{First: 2}},
		"restart@2s+500ms":                     Restart{At: 2 * time.Second, For: 500 * ms},
		"restart-empty@2s+500ms:1":             Restart{At: 2 * time.Second, For: 500 * ms, Servers: Target{First: 1}, Empty: true},
		"kill@2s:node=2":                       Kill{At: 2 * time.Second, Servers: Target{Only: 2}},
		"restart-empty@2s+1s:master":           Restart{At: 2 * time.Second, For: time.Second, Servers: Target{Role: "master"}, Empty: true},
		"cut@0s+1s:leader":                     Cut{For: time.Second, Servers: Target{Role: "leader"}},
		"kill-client@2s:holder":                KillClient{At: 2 * time.Second, Clients: Target{Role: Holder}},
		"stall-client@2s+1s:client=3":          StallClient{At: 2 * time.Second, For: time.Second, Clients: Target{Only: 3}},
		"cut@2s+500ms":                         Cut{At: 2 * time.Second, For: 500 * ms},
		"rtt@2s+1s:50ms":                       RTT{At: 2 * time.Second, For: time.Second, Add: 50 * ms},
		"jump@2s+1s:-10s":                      Jump{At: 2 * time.Second, For: time.Second, By: -10 * time.Second},
		"jump@2s+1s:10s:master":                Jump{At: 2 * time.Second, For: time.Second, By: 10 * time.Second, Servers: Target{Role: "master"}},
		"jump-client@2s+1s:1h":                 JumpClient{At: 2 * time.Second, For: time.Second, By: time.Hour},
		"jump-client@2s+1s:-1s:2":              JumpClient{At: 2 * time.Second, For: time.Second, By: -time.Second, Clients: Target{First: 2}},
		"park-client@2s+1s:after-set":          ParkClient{At: 2 * time.Second, For: time.Second, Step: "after-set"},
		"park-client@2s+1s:after-set:client=2": ParkClient{At: 2 * time.Second, For: time.Second, Step: "after-set", Clients: Target{Only: 2}},
		"kill-client@2s":                       KillClient{At: 2 * time.Second},
		"kill-client@2s:2":                     KillClient{At: 2 * time.Second, Clients: Target{First: 2}},
		"stall-client@2s+1s":                   StallClient{At: 2 * time.Second, For: time.Second},
	} {
		f, err := Parse(text)
		if err != nil || f != want {
			t.Errorf("%s: %v, %v", text, f, err)
			continue
		}
		if again, err := Parse(f.String()); err != nil || again != f {
			t.Errorf("%s is read back as %v, %v", f, again, err)
		}
	}
	for text, want := range map[string]string{
		"":                      `there is no ""; want NAME@AT[+FOR][:TARGET], such as pause@2s+300ms, with the NAME pause, kill, restart, restart-empty, cut, rtt, jump, kill-client, stall-client, jump-client, park-client`,
		"pause":                 "want pause@2s+300ms",
		"pause@2s":              "does not say for how long: want pause@2s+300ms",
		"pause@x+1s":            `"x" is no time after the start`,
		"pause@-1s+1s":          `"-1s" is no time after the start`,
		"pause@1s+0s":           `"0s" is no length of time`,
		"pause@1s+":             `"" is no length of time`,
		"explode@1s+1s":         `there is no "explode"; want NAME@AT[+FOR][:TARGET]`,
		"restart-full@1":        `there is no "restart-full"; want NAME@AT[+FOR][:TARGET]`,
		"kill":                  "want kill@2s",
		"kill@x":                `"x" is no time after the start`,
		"kill@1s+1s":            "kill ends with the run and takes no +1s: want kill@2s",
		"kill@1s:0":             `"0" is no number`,
		"pause@1s+1s+2s":        `"1s+2s" is no length of time`,
		"pause@1s+300 ms":       `"300 ms" is no length of time`,
		"pause@1s+1s:":          `"" is no number`,
		"pause@1s+1s:0":         `"0" is no number`,
		"pause@1s+1s:client=2":  `"client=2" is no number, and none of node=2, master, replica, sentinel, leader, follower: want pause@2s+300ms:1`,
		"kill@1s:holder":        `"holder" is no number, and none of node=2, master`,
		"kill@1s:node=0":        `"node=0" is no number`,
		"kill@1s:node=":         `"node=" is no number`,
		"kill-client@1s:leader": `"leader" is no number, and none of client=2, holder: want kill-client@2s:1`,
		"park-client@1s+1s":     "it does not name a step: want park-client@2s+1s:before-release:holder",
		"jump-client@1s+1s:x":   `"x" is no length of time: want jump-client@2s+1s:-1h0m0s:client=2`,
		"rtt@1s+1s:2s:1":        `"1" is too much: want rtt@2s+1s:50ms`,
		"rtt@1s+1s":             `"" is no length of time: want rtt@2s+1s:50ms`,
		"rtt@1s+1s:2":           `"2" is no length of time: want rtt@2s+1s:50ms`,
	} {
		f, err := Parse(text)
		if f != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, error %v, want %s", text, f, err, want)
		}
	}
}

// Every fault is named by its form, and the help tells of it.
func TestForms(t *testing.T) {
	for _, form := range forms() {
		f, err := Parse(form.example)
		if err != nil || f.Name() != form.name() || f.String() != form.example {
			t.Errorf("%s: %v, %v", form.example, f, err)
			continue
		}
		if !strings.Contains(Help(), form.example+" "+form.does) {
			t.Errorf("the help lacks %s: %s", form.example, Help())
		}
		if p := f.Plan(); p.At != 2*time.Second || (p.For > 0) != form.lasts {
			t.Errorf("%s: plan %+v", form.example, p)
		}
	}
}
