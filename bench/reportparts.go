package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/lockbench/lockbench/plots"
	"github.com/lockbench/lockbench/plots/page"
	"github.com/lockbench/lockbench/results"
	"github.com/lockbench/lockbench/results/capacity"
	"github.com/lockbench/lockbench/results/compare"
)

// ofForecasts reports whether the file name holds forecasts.
func ofForecasts(name string) bool {
	list, err := results.ReadForecasts(name)
	return err == nil && len(list) > 0
}

// planned is the plan of the file that plan -format json has written, or a new one for the
// needs of a file with runs; nil if neither was given.
func (r *reporter) planned(ctx context.Context, runs []results.Run) (*capacity.Answer, error) {
	switch {
	case r.plan != "":
		return readPlan(r.plan)
	case r.need == "":
		return nil, nil
	}
	p := planner{from: defaultWanted(), need: r.need}
	needs, err := p.needs()
	if err != nil {
		return nil, err
	}
	runs = results.Latest(runs)
	if err := someValid(runs, r.in); err != nil {
		return nil, err
	}
	a, err := planFor(ctx, needs, runs, nil)
	return &a, err
}

func readPlan(name string) (*capacity.Answer, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var a capacity.Answer
	if err := json.Unmarshal(b, &a); err != nil || len(a.Workloads) == 0 {
		return nil, fmt.Errorf("%s: no capacity plan: make one with lockbench plan -format json", name)
	}
	return &a, nil
}

// judged is what runs say of the claims, if some were given.
func (r *reporter) judged(runs []results.Run) (list []page.Claim, err error) {
	if r.claims == "" {
		return nil, nil
	}
	claims, err := chosenClaims(r.claims)
	if err != nil {
		return nil, err
	}
	for _, c := range claims {
		v := c.Judge(runs, compare.DefaultClaimAlpha)
		list = append(list, page.Claim{Text: c.Text, Outcome: string(v.Outcome), Says: plots.ClaimText(v)})
	}
	return list, nil
}

// compared compares runs with those of each older file.
func (r *reporter) compared(ctx context.Context, std stdio, runs []results.Run) (all []*compare.Comparison, damaged bool, err error) {
	name := filepath.Base(r.in[0])
	if len(r.in) > 1 {
		name = fmt.Sprintf("%s and %d more", name, len(r.in)-1)
	}
	for _, file := range r.old {
		old, bad, err := readRuns(ctx, std, "lockbench report", []string{file})
		if err != nil {
			return nil, false, err
		}
		damaged = damaged || bad
		c, err := compare.Compare(compare.Side{Name: filepath.Base(file), Runs: old}, compare.Side{Name: name, Runs: runs}, compare.Config{})
		if err != nil {
			return nil, false, fmt.Errorf("-compare %s: %w", file, err)
		}
		all = append(all, c)
	}
	return all, damaged, nil
}

// mostRows is how many findings a picture of a comparison has; the table has all.
const mostRows = 40

// notable are all with the findings of their ratios that differ most, after those that count.
func notable(all []*compare.Comparison) (list []*compare.Comparison) {
	counts := func(f compare.Finding) int {
		if f.Verdict == compare.Worse || f.Verdict == compare.Better {
			return 0
		}
		return 1
	}
	for _, c := range all {
		short := *c
		short.Findings = slices.DeleteFunc(slices.Clone(c.Findings), func(f compare.Finding) bool { return f.Ratio == 0 })
		if len(short.Findings) > mostRows {
			slices.SortStableFunc(short.Findings, func(a, b compare.Finding) int {
				return cmp.Or(counts(a)-counts(b), cmp.Compare(math.Abs(math.Log(b.Ratio)), math.Abs(math.Log(a.Ratio))))
			})
			short.Findings = short.Findings[:mostRows]
			slices.SortStableFunc(short.Findings, func(a, b compare.Finding) int { return cmp.Compare(a.Trial, b.Trial) })
		}
		list = append(list, &short)
	}
	return list
}

// pictures draws what the page shows. It has no need of PNGs.
func pictures(ctx context.Context, d *page.Data) (list []page.Figure, err error) {
	dir, err := os.MkdirTemp("", "lockbench-report-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	figures, err := plots.Draw(ctx, d.Runs, filepath.Join(dir, "runs"))
	if err != nil {
		return nil, err
	}
	files, err := plots.DrawForecasts(ctx, d.Forecasts, filepath.Join(dir, "forecasts"))
	if err != nil && !errors.Is(err, plots.ErrEmpty) {
		return nil, err
	}
	figures = append(figures, plots.Figure{Title: "Predicted against measured", Question: "How far is the model off?", Files: files})
	files, err = plots.DrawComparisons(ctx, notable(d.Comparisons), filepath.Join(dir, "comparison"))
	if err != nil && !errors.Is(err, plots.ErrEmpty) {
		return nil, err
	}
	figures = append(figures, plots.Figure{Title: "New ÷ old", Question: "What differs, and what only seems to?", Files: files})
	for _, f := range figures {
		for _, name := range f.Files {
			if filepath.Ext(name) != ".svg" {
				continue
			}
			svg, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			list = append(list, page.Figure{Title: f.Title, Question: f.Question, SVG: svg})
		}
	}
	heat, err := knees(d)
	return append(list, heat...), err
}

// knees are heat maps of the runs at the highest rates that searches found. Runs with
// faults have theirs among the other pictures.
func knees(d *page.Data) (list []page.Figure, err error) {
	for _, s := range d.Searches {
		met := slices.IndexFunc(s.Tries, func(t results.SearchTry) bool { return t.Rate == s.Low && t.Answer == results.Met })
		if met < 0 {
			continue
		}
		run := slices.IndexFunc(d.Runs, func(r results.Run) bool { return r.ID == s.Tries[met].Run })
		if run < 0 {
			continue
		}
		svg, err := plots.HeatSVG(&d.Runs[run])
		if errors.Is(err, plots.ErrEmpty) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, page.Figure{Title: fmt.Sprintf("%s at %.4g/s, the highest rate that keeps %s", s.Name(), s.Low, s.SLO), SVG: svg})
	}
	return list, nil
}
