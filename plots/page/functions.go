package page

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/lockbench/lockbench/results"
)

func functions() template.FuncMap {
	return template.FuncMap{
		"join":     strings.Join,
		"day":      func(t time.Time) string { return t.Format("2006-01-02 15:04 MST") },
		"duration": func(ns float64) string { return duration(ns) },
		"count":    count,
		"bytes":    bytesText,
		"percent":  func(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) },
		"error": func(f results.Foreseen) string {
			if f.Measured == 0 {
				return "–"
			}
			return fmt.Sprintf("%+.1f %%", 100*f.Error())
		},
		"load":  loadText,
		"round": short,
		"ratio": func(x float64) string { return fmt.Sprintf("%.3f", x) },
		"sort": func(c cell) string {
			if math.IsInf(c.key(), 1) {
				return ""
			}
			return fmt.Sprint(c.Value)
		},
	}
}
