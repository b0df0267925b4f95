package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/results"
)

// view is what the template shows.
type view struct {
	D            Data
	Style        template.CSS
	Script, JSON template.JS
	Policy       string

	Verdicts []verdict
	Rows     []*row // of every load
	Main     []*row // of the load under which most locks were measured
	MainLoad string
	Figures  []figure
	Invalid  []invalid
	Valid    int
	Findings []string // what valid runs have to say
	Matrix   *matrix
	Compared []comparison
	Env      [][2]string
	Data     embedded
}

// verdict is one question that the page answers.
type verdict struct{ Question, Answer, More, Link string }

// invalid is a run that may not be believed.
type invalid struct{ Trial, Reasons string }

// figure is a picture that can stand in the page.
type figure struct {
	ID, Title, Question string
	SVG                 template.HTML
}

// embedded is what the scripts read.
type embedded struct {
	Metrics []string   `json:"metrics"`
	Runs    [][]any    `json:"runs"`  // id, trial, time, valid, then the metrics in their order
	Cells   []cellText `json:"cells"` // the evidence of the matrix
	Sizes   []size     `json:"sizes"` // what the sliders reckon with
}

func newView(d Data) (*view, error) {
	groups := results.Groups(d.Runs)
	v := &view{D: d}
	locks := make(map[string]*Lock)
	for i := range d.Locks {
		locks[d.Locks[i].Name] = &d.Locks[i]
	}
	for i := range groups {
		v.Rows = append(v.Rows, newRow(&groups[i], locks[groups[i].Name()]))
	}
	v.main()
	v.judge()
	for i, f := range d.Figures {
		svg, err := inline(f.SVG, fmt.Sprintf("p%d", i))
		if err != nil {
			return nil, fmt.Errorf("page: %s: %w", f.Title, err)
		}
		v.Figures = append(v.Figures, figure{fmt.Sprintf("picture-%d", i), f.Title, f.Question, svg})
	}
	for i := range d.Runs {
		r := &d.Runs[i]
		if r.Valid.OK {
			v.Valid++
			continue
		}
		v.Invalid = append(v.Invalid, invalid{fmt.Sprintf("%s, block %d", r.Trial, r.Block+1), strings.Join(r.Valid.Reasons, "; ")})
	}
	v.Findings = said(d.Runs)
	v.Matrix, v.Data.Cells = newMatrix(d)
	v.Env = environment(d.Runs)
	v.Data.Metrics, v.Data.Runs = table(d.Runs)
	v.Data.Sizes = sizes(v.Main)
	if v.Data.Cells == nil {
		v.Data.Cells = []cellText{}
	}
	v.Verdicts = v.verdicts()
	for _, c := range d.Comparisons {
		v.Compared = append(v.Compared, newComparison(c))
	}
	if len(v.Compared) > 0 {
		v.Verdicts = append(v.Verdicts, changed(v.Compared))
	}
	return v, nil
}

// main picks the load under which most locks were measured; of equals the one with most
// owners.
func (v *view) main() {
	by := make(map[string][]*row)
	for _, r := range v.Rows {
		by[r.Load] = append(by[r.Load], r)
	}
	for load, rows := range by {
		n := len(v.Main)
		if len(rows) > n || len(rows) == n && (rows[0].Owners > v.Main[0].Owners || rows[0].Owners == v.Main[0].Owners && load < v.MainLoad) {
			v.Main, v.MainLoad = rows, load
		}
	}
	// Those that promise to exclude first, by what the longest waiter sees.
	slices.SortStableFunc(v.Main, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Longest.key(), b.Longest.key()))
	})
}

// table is every metric of every run, as the CSV has it.
func table(runs []results.Run) (names []string, rows [][]any) {
	seen := map[string]bool{}
	for i := range runs {
		for name := range runs[i].Metrics {
			seen[name] = true
		}
	}
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	rows = [][]any{}
	for i := range runs {
		r := &runs[i]
		line := []any{r.ID, r.Trial, r.Time.Format("2006-01-02T15:04:05Z"), r.Valid.OK}
		for _, name := range names {
			if value, ok := r.Metrics[name]; ok {
				line = append(line, short(value))
			} else {
				line = append(line, nil)
			}
		}
		rows = append(rows, line)
	}
	return names, rows
}

// said is what valid runs have to tell, each once with how often.
func said(runs []results.Run) (list []string) {
	n := map[string]int{}
	for i := range runs {
		for _, f := range runs[i].Valid.Findings {
			text := runs[i].Algo + ": " + f
			if n[text]++; n[text] == 1 {
				list = append(list, text)
			}
		}
	}
	return list
}

// environment is where the runs took place; of what differs each value.
func environment(runs []results.Run) (list [][2]string) {
	add := func(what string, of func(*results.Run) string) {
		var values []string
		for i := range runs {
			if s := of(&runs[i]); s != "" && !slices.Contains(values, s) {
				values = append(values, s)
			}
		}
		if len(values) > 0 {
			list = append(list, [2]string{what, strings.Join(values, " · ")})
		}
	}
	add("CPU", func(r *results.Run) string {
		return fmt.Sprintf("%s, %d cores, GOMAXPROCS %d", r.Env.CPU, r.Env.Cores, r.Env.GOMAXPROCS)
	})
	add("system", func(r *results.Run) string {
		return strings.TrimSpace(r.Env.OS + "/" + r.Env.Arch + " " + r.Env.Kernel)
	})
	add("Go", func(r *results.Run) string { return r.Env.Go })
	add("lockbench", func(r *results.Run) string { return r.Env.Commit })
	add("servers", func(r *results.Run) string {
		if r.Server.Kind == "" {
			return ""
		}
		return strings.TrimSpace(fmt.Sprintf("%s %s (%s) %s", r.Server.Product, r.Server.Version, r.Server.Source, r.Server.Options))
	})
	add("seed", func(r *results.Run) string { return fmt.Sprint(r.Env.Seed) })
	add("measured", func(r *results.Run) string { return r.Time.Format("2006-01-02") })
	if len(list) > 0 && len(runs) > 0 {
		for i := range list {
			if list[i][0] == "seed" && strings.Count(list[i][1], " · ") > 3 {
				list[i][1] = "drawn for each block; in the CSV's runs and the files"
			}
		}
	}
	return list
}
