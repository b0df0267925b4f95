package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeScenario(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestScenarioEqualsFlags(t *testing.T) {
	const text = `
# every flag of a grid, each in one of its forms
algo: [redis-token, "redis-set*"]
client: goredis
owners: [4, 8]
clients: [1, 2]
keys: 1,16
skew: [0, 0.99]
own-keys: false
hold: [1ms, exp:500us]
think: lognormal:1ms:0.5
rate: 0
wait: 250ms
warmup: 100ms
for: 2s
ttl: [5s, 10s]
renew: 1s
retry: 1ms
retry-max: 20ms
timeout: 1s
conns: 4
fault: [pause@1s+100ms]
repeat: 2
seed: 9
yardstick: false
`
	flags := strings.Fields("-algo redis-token,redis-set* -client goredis -owners 4,8 -clients 1,2 -keys 1,16 -skew 0,0.99 " +
		"-own-keys=false -hold 1ms,exp:500us -think lognormal:1ms:0.5 -rate 0 -wait 250ms -warmup 100ms -for 2s " +
		"-ttl 5s,10s -renew 1s -retry 1ms -retry-max 20ms -timeout 1s -conns 4 -fault pause@1s+100ms -repeat 2 -seed 9 -yardstick=false")
	byFlags := call(t, append([]string{"run", "-print", "-format", "json"}, flags...)...)
	byFile := call(t, "run", "-print", "-format", "json", "-scenario", writeScenario(t, text))
	if byFlags.status != 0 || byFile.status != 0 {
		t.Fatalf("%s%s", byFlags.stderr, byFile.stderr)
	}
	if byFile.stdout != byFlags.stdout || strings.Count(byFile.stdout, "\n") < 100 {
		t.Errorf("the file gives\n%s\nand the flags\n%s", byFile.stdout, byFlags.stdout)
	}
	if byFlags.stdout == call(t, "run", "-print", "-format", "json").stdout {
		t.Error("neither says anything")
	}
}

func TestFlagsBesideAScenarioWin(t *testing.T) {
	name := writeScenario(t, "algo: redis-token\nowners: [1, 2, 3]\nrepeat: 5\n")
	got := call(t, "run", "-print", "-scenario", name, "-owners", "7", "-repeat", "1")
	want := call(t, "run", "-print", "-algo", "redis-token", "-owners", "7")
	if got != want || got.status != 0 {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// A list of mappings is measured one after the other, each on its own, in blocks
// that are nobody else's.
func TestScenarioParts(t *testing.T) {
	name := writeScenario(t, "- algo: redis-token\n  owners: [1, 2]\n- algo: local-none\n  repeat: 2\n")
	got := call(t, "run", "-print", "-format", "json", "-client", "goredis", "-scenario", name)
	first := call(t, "run", "-print", "-format", "json", "-client", "goredis", "-algo", "redis-token", "-owners", "1,2")
	second := call(t, "run", "-print", "-format", "json", "-client", "goredis", "-algo", "local-none", "-repeat", "2")
	later := strings.NewReplacer(`"block":0`, `"block":1`, `"block":1`, `"block":2`).Replace(second.stdout)
	if got.status != 0 || later == second.stdout || got.stdout != first.stdout+later {
		t.Errorf("got %+v\nwant %s%s", got, first.stdout, later)
	}
	bad := writeScenario(t, "- owners: 1\n- owners: 1\n  owner: 2\n")
	oneLine(t, call(t, "run", "-print", "-scenario", bad), exitMisuse, `s.yaml:3: there is no setting "owner"`)
}

func TestBadScenario(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown", "owners: 1\nowner: 2\n", `s.yaml:2: there is no setting "owner"`},
		{"not of the grid", "redis: redis://h\n", `s.yaml:1: there is no setting "redis"`},
		{"value", "algo: redis-token\nowners: [1, x]\n", `s.yaml:2: owners: "x": want whole numbers`},
		{"duration", "for: 5\n", `s.yaml:1: for: "5": want a time with its unit`},
		{"fault", "fault: explode@1s+1s\n", `s.yaml:1: fault: "explode@1s+1s": `},
		{"twice", "owners: 1\n\nowners: 2\n", "s.yaml:3: owners is set twice"},
		{"no value", "owners:\n", "s.yaml:1: owners: want a value"},
		{"empty list", "\nowners: []\n", "s.yaml:2: owners has no value"},
		{"list for one", "repeat: [1, 2]\n", "s.yaml:1: repeat takes one value"},
		{"nested", "owners: {a: 1}\n", "s.yaml:1: owners: want a value"},
		{"list", "- 1\n", "s.yaml:1: a scenario is a list of settings"},
		{"syntax", "owners: 1\nkeys: [1\nhold: 1ms\n", "s.yaml:2: not YAML"},
		{"alias", "owners: *x\n", "s.yaml:1: not YAML"},
		{"empty", "", "s.yaml:1: "},
		{"two", "owners: 1\n---\nowners: 2\n", "s.yaml:1: "},
		{"no pattern", "algo: '['\n", `s.yaml:1: algo: "[": want names`},
		{"no match", "algo: nosuch\n", `no variant matches "nosuch"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			oneLine(t, call(t, "run", "-print", "-scenario", writeScenario(t, c.text)), exitMisuse, c.want)
		})
	}
	t.Run("overridden", func(t *testing.T) {
		oneLine(t, call(t, "run", "-print", "-owners", "2", "-scenario", writeScenario(t, "owners: x\n")), exitMisuse, "s.yaml:1: owners")
	})
	t.Run("missing", func(t *testing.T) {
		oneLine(t, call(t, "run", "-print", "-scenario", filepath.Join(t.TempDir(), "nosuch.yaml")), exitMisuse, "nosuch.yaml: no such file")
	})
	t.Run("profile too", func(t *testing.T) {
		oneLine(t, call(t, "run", "-print", "-scenario", "x", "-profile", "quick"), exitMisuse, "give one of them")
	})
	t.Run("no profile", func(t *testing.T) {
		oneLine(t, call(t, "run", "-print", "-profile", "slow"), exitMisuse, `there is no profile "slow"`)
	})
}
