package page

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser opens the page text in a real Chromium. What the page says on its console, and
// what it asks for beside itself, is in the list when the test ends, where it has to be empty.
func browser(t *testing.T, text string) (ctx context.Context, url string) {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		if slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), "chromium") {
			t.Fatal("LOCKBENCH_REQUIRE lists chromium, and it is not on PATH")
		}
		t.Skip("NOT TESTED: there is no chromium on PATH")
	}
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	url = "file://" + file
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WindowSize(1280, 800))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, over := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(over)

	var mu sync.Mutex
	var said []string
	run(ctx, t) // starts the browser
	err := chromedp.Listen(ctx, func(e any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := e.(type) {
		case *runtime.EventConsoleAPICalled:
			said = append(said, fmt.Sprintf("console: %v", e.Args))
		case *runtime.EventExceptionThrown:
			said = append(said, "exception: "+e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			said = append(said, "log: "+e.Entry.Text)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, url) && !strings.HasPrefix(e.Request.URL, "data:") && !strings.HasPrefix(e.Request.URL, "blob:") {
				said = append(said, "request: "+e.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range said {
			t.Error(s)
		}
	})
	run(ctx, t, chromedp.Navigate(url))
	return ctx, url
}

func run(ctx context.Context, t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// eval is what an expression of the page comes to.
func eval[T any](ctx context.Context, t *testing.T, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// A reader sorts, chooses, hides, slides, and sends somebody the address.
func TestInBrowser(t *testing.T) {
	d := stored(t)
	ctx, url := browser(t, written(t, d))

	locks := eval[int](ctx, t, `rows.length`)
	if locks < 20 || eval[int](ctx, t, `document.querySelectorAll("#scatter circle.dot").length`) < locks/2 {
		t.Fatalf("%d locks are shown", locks)
	}

	// A head sorts, first up and then down, and a key does it, too.
	rate := `[...document.querySelectorAll("#main tbody tr td:nth-of-type(3)")].map((c) => +c.dataset.v).filter((v) => v)`
	run(ctx, t, chromedp.Click(`//table[@id="main"]//button[text()="grants/s"]`))
	if up := eval[[]float64](ctx, t, rate); !slices.IsSorted(up) {
		t.Errorf("not sorted: %v", up)
	}
	run(ctx, t, chromedp.SendKeys(`//table[@id="main"]//button[text()="grants/s"]`, "\r"))
	down := eval[[]float64](ctx, t, rate)
	if slices.Reverse(down); !slices.IsSorted(down) || len(down) < 10 {
		t.Errorf("not sorted downwards: %v", down)
	}

	// A guarantee leaves those that give it.
	run(ctx, t, chromedp.Click(`input[name=want][value=fencing]`))
	left := eval[[]string](ctx, t, `inView().map((r) => r.dataset.traits)`)
	if len(left) == 0 || len(left) >= locks {
		t.Errorf("%d of %d locks are left", len(left), locks)
	}
	for _, traits := range left {
		if !slices.Contains(strings.Fields(traits), "fencing") {
			t.Errorf("a lock with %q is left", traits)
		}
	}
	// A hidden lock goes out of the charts.
	name := eval[string](ctx, t, `inView()[0].dataset.name`)
	run(ctx, t, chromedp.Click(fmt.Sprintf(`input[name=show][value=%q]`, name)))
	if n := eval[int](ctx, t, fmt.Sprintf(`document.querySelectorAll('#scatter [data-name=%q]').length`, name)); n != 0 {
		t.Errorf("%s is hidden, and in the chart", name)
	}

	// A cell shows its evidence.
	run(ctx, t, chromedp.Click(`#matrix button[data-cell="1"]`))
	if text := eval[string](ctx, t, `document.getElementById("evidence").textContent`); !strings.Contains(text, "zk-sequential under restart: blocked for 1 s") || !strings.Contains(text, "token 7") {
		t.Errorf("evidence: %q", text)
	}

	// A slider refuses what is beyond twice the measured.
	slide := func(id, to string) {
		eval[bool](ctx, t, fmt.Sprintf(`(() => { const s = document.getElementById(%q); s.value = %q; return s.dispatchEvent(new Event("input")); })()`, id, to))
	}
	slide("s-rate", "2")
	if text := eval[string](ctx, t, `document.querySelector("#whatif tbody").textContent`); !strings.Contains(text, "%") {
		t.Errorf("100/s tells nothing: %.300s", text)
	}
	slide("s-hold", "3")
	if text := eval[string](ctx, t, `document.querySelector("#whatif tbody").textContent`); strings.Count(text, "refused") != eval[int](ctx, t, `data.sizes.length`) {
		t.Errorf("a hold of a second is not refused by all: %.300s", text)
	}

	// Dark and light.
	before := eval[string](ctx, t, `getComputedStyle(document.body).backgroundColor`)
	run(ctx, t, chromedp.Click(`#theme`))
	if after := eval[string](ctx, t, `getComputedStyle(document.body).backgroundColor`); after == before {
		t.Error("the colours are as before")
	}

	// The whole view is in the address.
	kept := eval[string](ctx, t, `location.hash`)
	seen := eval[string](ctx, t, `JSON.stringify([[...document.querySelectorAll("#main tbody tr:not([hidden]):not(.off)")].map((r) => r.dataset.name), document.documentElement.dataset.theme, document.getElementById("s-hold").value, document.getElementById("evidence").textContent])`)
	run(ctx, t, chromedp.Navigate("about:blank"), chromedp.Navigate(url+kept))
	if again := eval[string](ctx, t, `JSON.stringify([[...document.querySelectorAll("#main tbody tr:not([hidden]):not(.off)")].map((r) => r.dataset.name), document.documentElement.dataset.theme, document.getElementById("s-hold").value, document.getElementById("evidence").textContent])`); again != seen {
		t.Errorf("the address %s shows\n%s\nand it was\n%s", kept, again, seen)
	}

	// The CSV has a line for each run, and each as many columns.
	lines := strings.Split(strings.TrimSpace(eval[string](ctx, t, `csv()`)), "\n")
	if len(lines) != 1+len(d.Runs) || strings.Count(lines[0], ",") < 50 {
		t.Errorf("CSV of %d lines and %d columns, of %d runs", len(lines), 1+strings.Count(lines[0], ","), len(d.Runs))
	}
	eval[bool](ctx, t, `(document.getElementById("csv").click(), true)`)
}

// On a phone nothing but a table in its own frame is wider than the screen.
func TestOnAPhone(t *testing.T) {
	ctx, _ := browser(t, written(t, stored(t)))
	run(ctx, t, chromedp.EmulateViewport(390, 844))
	if wide := eval[int](ctx, t, `document.documentElement.scrollWidth`); wide > 390 {
		t.Errorf("the page is %d px wide", wide)
	}
}

// Everything that is operated has a name, every table a caption, and every chart says where
// its figures are.
func TestForAScreenReader(t *testing.T) {
	ctx, _ := browser(t, written(t, stored(t)))
	for what, expression := range map[string]string{
		"tables without a caption":  `[...document.querySelectorAll("table")].filter((t) => !t.caption).length`,
		"charts without a label":    `[...document.querySelectorAll(".chart svg")].filter((s) => !s.getAttribute("aria-label")).length`,
		"controls without a name":   `[...document.querySelectorAll("input, button")].filter((c) => !c.labels?.length && !c.getAttribute("aria-label") && !c.textContent.trim() && !c.title).length`,
		"pictures without a title":  `[...document.querySelectorAll(".paper svg")].filter((s) => !s.querySelector("title")).length`,
		"names that are used twice": `(() => { const ids = [...document.querySelectorAll("[id]")].map((e) => e.id); return ids.length - new Set(ids).size; })()`,
	} {
		if n := eval[int](ctx, t, expression); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}
