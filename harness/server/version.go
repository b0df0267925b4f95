package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// saysVersion is what the program at path prints when it is asked for its version. Env is
// added to the environment. It may take as long as a start: on a busy machine, a large
// program that says one line has to be read from the disk all the same.
func saysVersion(ctx context.Context, path string, env ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("no answer within %v", readyWithin))
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second // what it has started may keep its output open
	out, err := cmd.Output()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return string(out), fmt.Errorf("%s --version: %w", path, err)
	}
	return string(out), nil
}

// versionAfter is the version that the program at path prints after prefix, in its first
// line. Name is what it should be.
func versionAfter(ctx context.Context, name, prefix, path string, env ...string) (string, error) {
	out, err := saysVersion(ctx, path, env...)
	first, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
	version, ok := strings.CutPrefix(first, prefix)
	switch {
	case errors.As(err, new(*exec.ExitError)) || err == nil && !ok:
		return "", fmt.Errorf("%s is no %s: --version says %q", path, name, lastLine([]byte(out)))
	case err != nil:
		return "", err
	}
	return strings.TrimSpace(version), nil
}

// versionIn is the first dotted number of what the program at path says of itself, "" if
// there is none.
func versionIn(ctx context.Context, path string) string {
	out, _ := saysVersion(ctx, path)
	for _, word := range strings.FieldsFunc(out, func(r rune) bool { return (r < '0' || r > '9') && r != '.' }) {
		if strings.Contains(strings.Trim(word, "."), ".") {
			return strings.Trim(word, ".")
		}
	}
	return ""
}

// redisVersion asks the program itself: "Redis server v=7.0.15 sha=…".
func redisVersion(ctx context.Context, path string) (product, version string) {
	out, _ := saysVersion(ctx, path)
	product = strings.TrimSuffix(filepath.Base(path), "-server")
	if strings.HasPrefix(strings.ToLower(out), "valkey") {
		product = "valkey"
	}
	for _, f := range strings.Fields(out) {
		if v, ok := strings.CutPrefix(f, "v="); ok {
			version = v
		}
	}
	return product, version
}
