package bench

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/lockbench/lockbench/plots"
	"github.com/lockbench/lockbench/results"
)

func claimsCommand() command {
	return command{
		name: "claims", args: "[-profile P | -claims F.yaml] [-in F.jsonl…] [F.jsonl…]",
		does: "says which claims about locks stored runs bear out",
		more: `
A claim is a number of one variant, or its ratio to that of another one that was
measured in the same block, and a bound that its median over the blocks keeps:

  - claim: redis-token is as fast as every peer when nobody competes
    of: {variants: [redis-token/goredis], at: owners=1/keys=1/hold=0s, metric: acq/s}
    over: {variants: [peer-*], at: owners=1/keys=1/hold=0s, metric: acq/s}
    least: 1.0

at is the name of a trial (see run -print) without its algorithm and client. Of
several variants in over the best one counts. least and most bound the median, or
with "every: true" the value of each block, for what a lock promises. The exit
status is 1 if a claim was missed or could not be judged.`,
		setup: func(fs *flag.FlagSet) func(context.Context, stdio) error {
			var in []string
			fs.Var(&list[string]{values: &in, parse: filename}, "in", "results `files` of run; also the words after the flags")
			file := fs.String("claims", "", "read the claims from this YAML `file`")
			name := fs.String("profile", "redis", "judge the claims that come with this `profile`")
			return func(ctx context.Context, std stdio) error {
				list, err := chosenClaims(*file, *name)
				if err != nil {
					return err
				}
				return judgeFiles(ctx, std, list, append(in, fs.Args()...))
			}
		},
	}
}

// chosenClaims are those in file, or those of the profile if file is "".
func chosenClaims(file, profile string) ([]results.Claim, error) {
	if file == "" {
		text, err := profileClaims(profile)
		if err != nil {
			return nil, err
		}
		return readClaims(profile, text)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, misuse("claims: %w", err)
	}
	return readClaims(file, text)
}

func filename(text string) (string, error) {
	if text == "" {
		return "", errors.New("want the name of a results file")
	}
	return text, nil
}

// readClaims reads a list of claims strictly. Errors begin with the name.
func readClaims(name string, text []byte) ([]results.Claim, error) {
	type pick struct {
		Variants []string `yaml:"variants"`
		At       string   `yaml:"at"`
		Metric   string   `yaml:"metric"`
	}
	var raw []struct {
		Claim string   `yaml:"claim"`
		Of    pick     `yaml:"of"`
		Over  pick     `yaml:"over"`
		Least *float64 `yaml:"least"`
		Most  *float64 `yaml:"most"`
		Every bool     `yaml:"every"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&raw); err != nil && !errors.Is(err, io.EOF) {
		return nil, misuse("%s: %s", name, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if more := new(any); !errors.Is(d.Decode(more), io.EOF) {
		return nil, misuse("%s: only one YAML document is read, and behind it there is more: put all claims into one list", name)
	}
	var list []results.Claim
	for _, r := range raw {
		c := results.Claim{
			Text: r.Claim, Of: results.Pick(r.Of), Over: results.Pick(r.Over),
			Least: r.Least, Most: r.Most, Every: r.Every,
		}
		if err := c.Check(); err != nil {
			return nil, misuse("%s: %w", name, err)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, misuse("%s: there are no claims in it", name)
	}
	return list, nil
}

func judgeFiles(ctx context.Context, std stdio, claims []results.Claim, files []string) error {
	runs, damaged, err := readRuns(ctx, std, "lockbench claims", files)
	if err != nil {
		return err
	}
	var verdicts []results.Verdict
	held := 0
	for _, c := range claims {
		v := c.Judge(runs)
		if v.Held {
			held++
		}
		verdicts = append(verdicts, v)
	}
	if err := plots.ClaimsText(std.out, verdicts); err != nil {
		return err
	}
	if held < len(claims) {
		return fmt.Errorf("%d of %d claims were missed or could not be judged", len(claims)-held, len(claims))
	}
	say(std.out, "all %d claims held\n", held)
	if damaged {
		return exit{status: exitFailure}
	}
	return nil
}
