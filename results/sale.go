package results

import (
	"encoding/json"
	"time"
)

// SaleSchema is the version of a stored flash sale.
const SaleSchema = 1

// NoLock is the Algo of a sale whose buyers take no lock at all: the negative control.
const NoLock = "none"

// Terms are what a flash sale is like.
type Terms struct {
	Buyers int           `json:"buyers"`  // each wants one unit of one good; spread evenly over the goods
	Goods  int           `json:"goods"`   // each has a lock of its own
	Stock  int64         `json:"stock"`   // units of each good at the start
	Procs  int           `json:"procs"`   // processes in which the buyers live, as asked; Env.Processes tells how many there were
	Wait   time.Duration `json:"wait_ns"` // bound of one attempt to get the lock
	Tries  int           `json:"tries"`   // attempts of a buyer, with random pauses between
	Work   time.Duration `json:"work_ns"` // between reading the stock and writing it
}

// A Sale is one flash sale and what became of the stock. It is stored as one line of JSON.
type Sale struct {
	Schema  int       `json:"sale_schema"`
	ID      string    `json:"id"`
	Session string    `json:"session"` // shared by the sales of one command
	Time    time.Time `json:"time"`    // when it began, UTC
	Commit  string    `json:"commit,omitempty"`
	Repeat  int       `json:"repeat"` // 0, 1, …: which of several under the same terms

	Algo   string          `json:"algo"`
	Client string          `json:"client,omitempty"`
	Unsafe []string        `json:"unsafe"` // hazards that the lock declares
	Server Server          `json:"server"`
	Config json.RawMessage `json:"config"`
	Env    Env             `json:"env"`
	Terms  Terms           `json:"terms"`

	Goods []Good `json:"goods"`
	// Waits are the times from the start until a buyer was let in; GaveUp, of those that
	// never were, until they had made all their attempts. In ns.
	Waits  *Histogram `json:"waits"`
	GaveUp *Histogram `json:"gave_up"`
	// SoldOut are the buyers that were let in and found no unit left.
	SoldOut int64 `json:"sold_out"`
	// Overlaps is how often a buyer was let in beside another.
	Overlaps int64 `json:"overlaps"`
	// Late is how many buyers wrote when their lease may have ended by itself, since they
	// had worked longer than it lasts; LostLeases of how many the release said so.
	Late       int64 `json:"late"`
	LostLeases int64 `json:"lost_leases"`
	// Errors are failures of the lock, other than a wait that took too long.
	Errors     int64  `json:"errors"`
	FirstError string `json:"first_error,omitempty"`
	// Took is the time from the start until the last buyer was done.
	Took time.Duration `json:"took_ns"`
	// Excuse says why the lock did not promise to exclude; "" is that it did.
	Excuse string `json:"excuse,omitempty"`
}

// A Good is what became of one good in a sale.
type Good struct {
	Left   int64 `json:"left"`   // units, as the store has it
	Bought int64 `json:"bought"` // units that buyers took
}

// Name is algo/client, or algo alone where there is only one client.
func (s *Sale) Name() string {
	if s.Client == "" {
		return s.Algo
	}
	return s.Algo + "/" + s.Client
}

// Bought is how many units buyers took.
func (s *Sale) Bought() (n int64) {
	for _, g := range s.Goods {
		n += g.Bought
	}
	return n
}

// Left is how many units the store has left.
func (s *Sale) Left() (n int64) {
	for _, g := range s.Goods {
		n += g.Left
	}
	return n
}

// Expected is how many units should be left; below 0 where more were sold than there were.
func (s *Sale) Expected() int64 { return int64(len(s.Goods))*s.Terms.Stock - s.Bought() }

// Lost is how many of the units that buyers took the store does not know of: updates that
// another one wrote over.
func (s *Sale) Lost() int64 { return s.Left() - s.Expected() }

// Violated tells that updates were lost, or that two buyers were inside at a time,
// although the lock promised to exclude.
func (s *Sale) Violated() bool { return (s.Lost() != 0 || s.Overlaps > 0) && s.Excuse == "" }

// Wait is the p-th percentile, 0 … 100, of the time that buyers waited, in ns. Those that gave up
// waited at least as long as they did: atLeast says that the percentile falls among them.
func (s *Sale) Wait(p float64) (ns int64, atLeast bool) {
	var all Histogram
	all.Merge(s.Waits)
	all.Merge(s.GaveUp)
	ns = all.Quantile(p)
	return ns, s.GaveUp.Exact.Count > 0 && ns >= s.GaveUp.Exact.Min
}

// AppendSales opens a file of sales for appending, and makes it if it is not there. The
// sales that it has already are returned: a file that holds something else is refused.
func AppendSales(name string) (*Lines[Sale], []Sale, error) { return appendLines[Sale](name) }

// ReadSales reads the sales of a file. A line that was cut short is left out.
func ReadSales(name string) ([]Sale, error) { return fileOf[Sale](name) }
