package bench

import (
	"bytes"
	"regexp"
	"runtime"
	"testing"
)

func TestVersion(t *testing.T) {
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), commands("abc123+dirty"), []string{"version"}, stdio{nil, &stdout, &stderr})
	if status != 0 || stderr.Len() > 0 {
		t.Fatalf("status %d: %s", status, &stderr)
	}
	for _, want := range []string{
		`^lockbench +\S+\n`, `\ncommit +abc123\+dirty\n`,
		`\ngo +` + regexp.QuoteMeta(runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH) + `\n`,
		`\nengines +redis, mysql, postgresql, zookeeper, etcd, nats`, `\nbuilt in +redis \(\S.*\), etcd \(etcd \S+\), nats \(nats \S+\)`,
	} {
		if !regexp.MustCompile(want).MatchString(stdout.String()) {
			t.Errorf("%s is not in:\n%s", want, &stdout)
		}
	}
	if o := call(t, "--version"); o.status != 0 || !regexp.MustCompile(`\ncommit +unknown\n`).MatchString(o.stdout) {
		t.Errorf("%+v", o)
	}
	oneLine(t, call(t, "version", "x"), exitMisuse, "1 word too many")
}
