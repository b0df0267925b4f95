package zookeeper_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// others is a process with contenders that this project has not written.
type others struct {
	in io.Writer

	mu    sync.Mutex
	lines map[string]chan string // of each contender
}

// contend starts cmd until the end of the test.
func contend(t *testing.T, cmd *exec.Cmd) *others {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := &others{in: in, lines: map[string]chan string{}}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = in.Close()
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-ended
		}
		_ = cmd.Wait() // how it ends says nothing
		if t.Failed() && said.Len() > 0 {
			t.Logf("they say: %s", said.String())
		}
	})
	go func() {
		defer close(ended)
		for s := bufio.NewScanner(out); s.Scan(); {
			name, rest, _ := strings.Cut(s.Text(), " ")
			o.of(name) <- rest
		}
	}()
	o.hear(t, "ready", "")
	return o
}

func (o *others) of(name string) chan string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lines[name] == nil {
		o.lines[name] = make(chan string, 16)
	}
	return o.lines[name]
}

// hear waits until the contender called name has said want.
func (o *others) hear(t *testing.T, name, want string) {
	t.Helper()
	select {
	case got := <-o.of(name):
		if got != want {
			t.Fatalf("%s: %s, want %s", name, got, want)
		}
	case <-time.After(2 * patience):
		t.Fatalf("%s does not say %q", name, want)
	}
}

// silent fails if the contender called name has said anything.
func (o *others) silent(t *testing.T, name string) {
	t.Helper()
	select {
	case got := <-o.of(name):
		locktest.Violation(t, "%s: %s, and another holds the key", name, got)
		t.FailNow()
	default:
	}
}

func (o *others) tell(t *testing.T, words ...string) {
	t.Helper()
	if _, err := fmt.Fprintln(o.in, strings.Join(words, " ")); err != nil {
		t.Fatal(err)
	}
}

// ask tells and hears.
func (o *others) ask(t *testing.T, want string, words ...string) {
	t.Helper()
	o.tell(t, words...)
	o.hear(t, words[0], want)
}

// kazoo starts contenders for kazoo's Lock.
func kazoo(t *testing.T, s *server.Server) *others {
	t.Helper()
	return contend(t, exec.Command(python(t), "testdata/contender.py", hosts(s)))
}

// python is the program that has kazoo.
func python(t testing.TB) string {
	t.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import kazoo").Run() == nil {
			return python
		}
	}
	lacking(t, "kazoo", "there is no python3 with kazoo")
	return ""
}

// curator starts contenders for the locks of Curator.
func curator(t *testing.T, s *server.Server) *others {
	t.Helper()
	const dir = "/usr/share/java"
	var path []string
	for _, jar := range []string{
		"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute",
		"guava", "slf4j-api", "slf4j-nop",
	} {
		at := filepath.Join(dir, jar+".jar")
		if _, err := os.Stat(at); err != nil {
			lacking(t, "curator", "there is no "+at)
		}
		path = append(path, at)
	}
	if _, err := exec.LookPath("javac"); err != nil {
		lacking(t, "curator", "there is no compiler of Java")
	}
	java, err := exec.LookPath("java")
	if err != nil {
		lacking(t, "curator", "there is no java")
	}
	return contend(t, exec.Command(java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", strings.Join(path, ":"), "testdata/Contender.java", hosts(s)))
}

// TestForeign lets contenders that this project has not written and ours exclude
// each other, in the order of their arrival, and count together.
func TestForeign(t *testing.T) {
	s := serve(t, lock.Single)
	for _, c := range []struct {
		name, algo, kind string
		queue            string // where the nodes lie, below the key
		start            func(*testing.T, *server.Server) *others
	}{
		{"kazoo", "zk-sequential", "lock", "", kazoo},
		{"curator mutex", "zk-reentrant", "mutex", "", curator},
		{"curator semaphore", "zk-semaphore-mutex", "semaphore", "/locks", curator},
		{"curator writer", "zk-rw", "write", "", curator},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			they := c.start(t, s)
			look := admin(t, s)
			ours := open(t, s, c.algo, lock.Config{TTL: time.Minute})
			try := ours.(lock.Tryer).TryAcquire
			key := "foreign-" + c.algo
			path := "/" + key

			held, err := ours.Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			they.ask(t, "no", "a", "try", c.kind, path)
			free(t, held)
			they.ask(t, "yes", "a", "try", c.kind, path)
			they.ask(t, "locked", "a", "lock", c.kind, path)
			_, err = try(t.Context(), key)
			refused(t, "they hold the key", err)
			they.ask(t, "unlocked", "a", "unlock")
			if held, err = try(t.Context(), key); err != nil {
				t.Fatalf("they have released the key, and we got %v", err)
			}

			// One of theirs, ours, theirs: first come, first served. The holder of a
			// semaphore has left the queue, and the first that waits is in it.
			base := 1
			if c.queue != "" {
				base = 0
			}
			they.tell(t, "a", "lock", c.kind, path)
			queued(t, look, path+c.queue, base+1)
			second := start(t.Context(), ours.Acquire, key)
			queued(t, look, path+c.queue, base+2)
			they.tell(t, "b", "lock", c.kind, path)
			queued(t, look, path+c.queue, base+3)
			they.silent(t, "a")
			free(t, held)
			they.hear(t, "a", "locked")
			they.silent(t, "b")
			select {
			case g := <-second:
				locktest.Violation(t, "they hold the key, and we got lease %v, error %v", g.lease, g.err)
				t.FailNow()
			default:
			}
			they.ask(t, "unlocked", "a", "unlock")
			held = granted(t, second)
			they.silent(t, "b")
			free(t, held)
			they.hear(t, "b", "locked")
			they.ask(t, "unlocked", "b", "unlock")

			together(t, s, they, c.algo, c.kind)
		})
	}
}

// together counts in a file, of which each contender reads a number and writes
// the next one: two at once would write the same.
func together(t *testing.T, s *server.Server, they *others, algo, kind string) {
	t.Helper()
	const each = 30
	file := filepath.Join(t.TempDir(), "number")
	if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	key := "together-" + algo
	names := []string{"c", "d"}
	for _, name := range names {
		they.tell(t, name, "work", kind, "/"+key, file, strconv.Itoa(each))
	}
	problems := make(chan error, len(names))
	for range names {
		l := open(t, s, algo, lock.Config{TTL: time.Minute})
		go func() {
			for range each {
				lease, err := l.Acquire(t.Context(), key)
				if err == nil {
					err = addOne(file)
					err = errors.Join(err, lease.Release(t.Context()))
				}
				if err != nil {
					problems <- err
					return
				}
			}
			problems <- nil
		}()
	}
	for range names {
		if err := <-problems; err != nil {
			t.Error(err)
		}
	}
	for _, name := range names {
		they.hear(t, name, "done")
	}
	b, err := os.ReadFile(file)
	if want := strconv.Itoa(2 * len(names) * each); err != nil || string(b) != want {
		locktest.Violation(t, "all together counted to %s, want %s (error %v)", b, want, err)
	}
}

func addOne(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(b))
	if err != nil {
		return err
	}
	time.Sleep(time.Millisecond)
	return os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600)
}

// Readers of Curator's and ours are inside together, and neither beside a writer.
func TestForeignReaders(t *testing.T) {
	s := serve(t, lock.Single)
	they := curator(t, s)
	ours := open(t, s, "zk-rw", lock.Config{TTL: time.Minute})
	const key = "readers"
	they.ask(t, "locked", "a", "lock", "read", "/"+key)
	mine, err := ours.(lock.Sharer).AcquireShared(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	they.ask(t, "yes", "b", "try", "read", "/"+key)
	they.ask(t, "no", "b", "try", "write", "/"+key)
	_, err = ours.(lock.Tryer).TryAcquire(t.Context(), key)
	refused(t, "readers hold the key", err)
	they.ask(t, "unlocked", "a", "unlock")
	they.ask(t, "no", "b", "try", "write", "/"+key)
	free(t, mine)
	they.ask(t, "yes", "b", "try", "write", "/"+key)
	they.ask(t, "locked", "a", "lock", "write", "/"+key)
	waiting := start(t.Context(), ours.(lock.Sharer).AcquireShared, key)
	queued(t, admin(t, s), "/"+key, 2)
	select {
	case g := <-waiting:
		locktest.Violation(t, "a reader of ours beside their writer: lease %v, error %v", g.lease, g.err)
		t.FailNow()
	default:
	}
	they.ask(t, "unlocked", "a", "unlock")
	free(t, granted(t, waiting))
}
