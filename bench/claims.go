package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/lockbench/lockbench/plots"
	"github.com/lockbench/lockbench/results/compare"
)

// chosenClaims are those in file, or those that come with a profile if file is the name of
// one that a file of that name does not hide.
func chosenClaims(file string) ([]compare.Claim, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		if !slices.Contains(profileNames(), file) {
			return nil, misuse("-claims: %w; it is a file, or a profile that comes with claims", err)
		}
		if text, err = profileClaims(file); err != nil {
			return nil, err
		}
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
func readClaims(name string, text []byte) ([]compare.Claim, error) {
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
	var list []compare.Claim
	for _, r := range raw {
		c := compare.Claim{
			Text: r.Claim, Of: compare.Pick(r.Of), Over: compare.Pick(r.Over),
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

// judgeFiles judges claims by the runs in files. With asJSON it writes the judgements as a
// line of JSON each.
func judgeFiles(ctx context.Context, std stdio, claims []compare.Claim, files []string, alpha float64, asJSON bool) error {
	runs, damaged, err := readRuns(ctx, std, "lockbench compare", files)
	if err != nil {
		return err
	}
	var judged []compare.Judgement
	passed := 0
	for _, c := range claims {
		v := c.Judge(runs, alpha)
		if v.Outcome == compare.Pass {
			passed++
		}
		judged = append(judged, v)
	}
	if asJSON {
		if err := writeLines(std.out, judged); err != nil {
			return err
		}
	} else if err := plots.ClaimsText(std.out, judged); err != nil {
		return err
	}
	if passed < len(claims) {
		return fmt.Errorf("%d of %d claims did not pass", len(claims)-passed, len(claims))
	}
	if !asJSON {
		say(std.out, "all %d claims passed\n", passed)
	}
	if damaged {
		return exit{status: exitFailure}
	}
	return nil
}
