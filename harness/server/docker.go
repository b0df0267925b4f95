package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

// engine is the container engine of this machine.
type engine struct {
	provider *testcontainers.DockerProvider
	cli      client.APIClient
	run      string   // value of ourLabel on the containers started through this
	j        *janitor // removes them if we die; nil before guard, and without a docker command
}

// ourLabel marks the containers that this program created.
const ourLabel = "lockbench"

// engineWithin bounds the question whether there is an engine.
const engineWithin = 2 * time.Second

// quiet stops testcontainers from writing a banner to standard error when it
// meets the engine for the first time. The logger of that banner can only be
// set for the whole process, and setting it twice at once would be a race.
var quiet = sync.OnceFunc(func() { tclog.SetDefault(tclog.NewNoopLogger()) })

// reaperOff is the documented switch of testcontainers' clean-up container. We
// need none, see guardScript, and its image often cannot be had.
const reaperOff = "TESTCONTAINERS_RYUK_DISABLED"

// openEngine finds the engine as testcontainers does (DOCKER_HOST, the usual
// sockets, ~/.testcontainers.properties), or says why there is none.
func openEngine(ctx context.Context) (*engine, error) {
	quiet()
	// The environment is read once for the life of the process, by ReadConfig at
	// the latest, so nobody else has to see the variable. What the user has set
	// stays in force.
	if _, set := os.LookupEnv(reaperOff); !set {
		if err := os.Setenv(reaperOff, "true"); err != nil {
			return nil, err
		}
		testcontainers.ReadConfig()
		if err := os.Unsetenv(reaperOff); err != nil {
			return nil, err
		}
	}
	type answer struct {
		p   testcontainers.GenericProvider
		err error
	}
	got := make(chan answer, 1)
	go func() {
		// It takes no ctx. One that hangs is left alone: it ends with its dial.
		p, err := testcontainers.ProviderDefault.GetProvider(testcontainers.WithLogger(tclog.NewNoopLogger()))
		got <- answer{p, err}
	}()
	timer := time.NewTimer(engineWithin)
	defer timer.Stop()
	var a answer
	select {
	case a = <-got:
	case <-timer.C:
		a.err = context.DeadlineExceeded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p, ok := a.p.(*testcontainers.DockerProvider)
	if a.err != nil || !ok {
		return nil, noEngine(a.err)
	}
	e := &engine{provider: p, cli: p.Client(), run: strconv.Itoa(os.Getpid()) + "-" + rand.Text()}
	ctx, cancel := context.WithTimeout(ctx, engineWithin)
	defer cancel()
	if _, err := e.cli.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		_ = e.close()
		return nil, noEngine(err)
	}
	// It goes on to the usual sockets if the engine that was named is silent.
	if named := os.Getenv("DOCKER_HOST"); named != "" && named != e.cli.DaemonHost() {
		_ = e.close()
		return nil, missing("the container engine that DOCKER_HOST names does not answer; use the one of this machine with: unset DOCKER_HOST")
	}
	if u, err := url.Parse(e.cli.DaemonHost()); err != nil || u.Scheme != "unix" && u.Scheme != "npipe" && u.Hostname() != "localhost" && u.Hostname() != "127.0.0.1" {
		_ = e.close()
		return nil, missing("the container engine is on another machine, where a loopback port cannot be reached; start a server there and give its address: `lockbench servers` says how")
	}
	return e, nil
}

// noEngine says what to do about an engine that does not answer.
func noEngine(err error) error {
	switch {
	case err != nil && strings.Contains(err.Error(), "permission denied"):
		return missing("the container engine does not let this user in; join its group with: sudo usermod -aG docker \"$USER\"")
	case runtime.GOOS != "linux":
		return missing("no container engine answers; start Docker Desktop, or get it with: brew install --cask docker")
	}
	if _, err := exec.LookPath("docker"); err != nil {
		return missing("there is no container engine; get one with: apt-get install docker.io")
	}
	return missing("no container engine answers; start it with: systemctl start docker")
}

// guard hires the janitor of the containers to come.
func (e *engine) guard() (err error) {
	if _, err := exec.LookPath("docker"); err != nil {
		return nil // sweepStale will find what is left
	}
	e.j, err = hire(boxScript, ourLabel+"="+e.run, e.cli.DaemonHost())
	return err
}

// close lets go of the engine, when all of its containers are gone.
func (e *engine) close() error {
	if e.j != nil {
		e.j.dismiss()
	}
	return e.provider.Close()
}

// localImage is what scripts/image makes of the installed program of a kind.
func localImage(kind string) string { return "lockbench/" + kind + ":local" }

// image chooses the image of a kind, whose usual one is fallback; see Options. A
// kind without a usual one has to be given one.
func (e *engine) image(ctx context.Context, kind, fallback string, o Options) (string, error) {
	if image := o.Images[kind]; image != "" {
		return image, nil
	}
	local := localImage(kind)
	if _, err := e.cli.ImageInspect(ctx, local); err == nil {
		return local, nil
	}
	if fallback == "" {
		return "", missing(fmt.Sprintf("there is no usual image of %s, and the engine does not have %s; get it with: scripts/image %[1]s, or name one that has a shell with -%[1]s-image", kind, local))
	}
	return fallback, nil
}

// inspectImage says what an image of a kind holds, or that it has to be fetched.
func (e *engine) inspectImage(ctx context.Context, kind, image string) (product, version string, err error) {
	i, err := e.cli.ImageInspect(ctx, image)
	switch {
	case errdefs.IsNotFound(err):
		return "", "", noImage(kind, image)
	case err != nil:
		return "", "", fmt.Errorf("image %s: %w", image, err)
	}
	if i.Config != nil {
		product, version = imageVersion(kind, image, i.Config.Labels, i.Config.Env)
	}
	return product, version, nil
}

func noImage(kind, image string) error {
	get := "docker pull " + image + ", or make one of the installed server with: scripts/image " + kind
	if image == localImage(kind) {
		get = "scripts/image " + kind
	}
	return missing("the engine does not have the image " + image + "; get it with: " + get)
}

// imageVersion reads product and version of an image from what its maker wrote
// on it; both are guesses until the server itself has been asked.
func imageVersion(kind, image string, labels map[string]string, env []string) (product, version string) {
	product = kind
	switch {
	case kind == "redis" && strings.Contains(image, "valkey"):
		product = "valkey"
	case kind == "mysql" && (image == localImage(kind) || strings.Contains(image, "mariadb")):
		product = "mariadb"
	}
	if v := labels["org.opencontainers.image.version"]; v != "" {
		return product, v
	}
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, strings.ToUpper(product)+"_VERSION="); ok {
			return product, v
		}
	}
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		version = image[i+1:]
	}
	return product, version
}

// gone reports whether a container's removal failed because it is gone or
// going, which is what was wanted.
func gone(err error) bool {
	return errdefs.IsNotFound(err) || err != nil && strings.Contains(err.Error(), "already in progress")
}
