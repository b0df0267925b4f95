package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/lockbench/lockbench/results"
)

// saleLine is one sale in a line.
func saleLine(s *results.Sale) string {
	stock := fmt.Sprintf("stock %d as expected", s.Left())
	if n := s.Lost(); n != 0 {
		stock = fmt.Sprintf("stock %d, expected %d: %d lost", s.Left(), s.Expected(), n)
	}
	line := fmt.Sprintf("%s: %s; %d of %d bought in %s", s.Name(), stock, s.Bought(), s.Terms.Buyers, inSeconds(s.Took))
	if n := s.GaveUp.Exact.Count; n > 0 {
		line += fmt.Sprintf(", %d gave up", n)
	}
	if s.SoldOut > 0 {
		line += fmt.Sprintf(", %d found it sold out", s.SoldOut)
	}
	if s.Errors > 0 {
		line += fmt.Sprintf("; %d errors, the first: %s", s.Errors, withoutSecrets(s.FirstError))
	}
	return line
}

func inSeconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s" }

// saleTable prints one row for each lock, in the order of held. Times are medians of its
// sales; stock, losses and each count are those of the worst sale, since one in which
// nobody got in is what a user has to know of.
func saleTable(w io.Writer, held []results.Sale) error {
	var order []string
	by := map[string][]*results.Sale{}
	for i := range held {
		s := &held[i]
		if by[s.Name()] == nil {
			order = append(order, s.Name())
		}
		by[s.Name()] = append(by[s.Name()], s)
	}
	rows := [][]string{{"LOCK", "EXACT", "STOCK LEFT", "EXPECTED", "LOST", "BOUGHT", "GAVE UP", "ERRORS", "TIME", "WAIT p50", "p99", "LONGEST", ""}}
	for _, name := range order {
		rows = append(rows, saleRow(name, by[name]))
	}
	if err := table(w, rows); err != nil {
		return err
	}
	t := held[0].Terms
	say(w, "%d buyers, %d goods of %d units, %v of work; a buyer waits at most %v, %d times. EXACT: sales whose stock was right.\n", t.Buyers, t.Goods, t.Stock, t.Work, t.Wait, t.Tries)
	say(w, "Stock and losses: the sale that lost most; BOUGHT, GAVE UP and ERRORS: the worst sale of each; times: medians. ≥: some gave up after so long.\n")
	return nil
}

func saleRow(name string, list []*results.Sale) []string {
	exact := 0
	worst, why := middle(list, (*results.Sale).Bought), "" // of those that lost alike
	for _, s := range list {
		if s.Lost() == 0 {
			exact++
		}
		if s.Lost() > worst.Lost() {
			worst = s
		}
		switch {
		case s.Violated():
			why = "violation"
		case s.Lost() > 0 && why == "":
			why = s.Excuse
		}
	}
	var bought, gaveUp, errs []int64
	for _, s := range list {
		bought, gaveUp, errs = append(bought, s.Bought()), append(gaveUp, s.GaveUp.Exact.Count), append(errs, s.Errors)
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	row := []string{
		name, fmt.Sprintf("%d of %d", exact, len(list)), number(worst.Left()), number(worst.Expected()), number(worst.Lost()),
		number(slices.Min(bought)), number(slices.Max(gaveUp)), number(slices.Max(errs)),
		inSeconds(middle(list, func(s *results.Sale) int64 { return int64(s.Took) }).Took),
	}
	for _, p := range []float64{50, 99, 100} {
		s := middle(list, func(s *results.Sale) int64 { ns, _ := s.Wait(p); return ns })
		ns, atLeast := s.Wait(p)
		text := inSeconds(time.Duration(ns))
		if atLeast {
			text = "≥ " + text
		}
		row = append(row, text)
	}
	return append(row, why)
}

// middle is the sale with the median of a number.
func middle(list []*results.Sale, of func(*results.Sale) int64) *results.Sale {
	sorted := slices.SortedFunc(slices.Values(list), func(a, b *results.Sale) int { return cmp.Compare(of(a), of(b)) })
	return sorted[len(sorted)/2]
}
