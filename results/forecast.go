package results

import (
	"cmp"
	"time"
)

// ForecastSchema is the version of a stored forecast.
const ForecastSchema = 1

// A Forecast is one load as a model predicted it, without having seen it, and as it was
// measured afterwards. It is stored as one line of JSON. Durations are in ns.
type Forecast struct {
	Schema  int       `json:"forecast_schema"`
	Run     string    `json:"run"`     // the ID of the measured run
	Session string    `json:"session"` // shared by the forecasts of one command
	Time    time.Time `json:"time"`
	Algo    string    `json:"algo"`
	Client  string    `json:"client,omitempty"`
	Server  Server    `json:"server"`
	Load    Load      `json:"load"`
	// Order is how the model took the lock to serve its waiters: "fifo", "polling", …
	Order string `json:"order"`
	// Hottest is the share of time in which the hottest key is in use, as predicted.
	Hottest float64 `json:"hottest_key"`
	// Rate is of grants a second, P50 and P99 of queue + acquire.
	Rate Foreseen `json:"acq_per_s"`
	P50  Foreseen `json:"p50_ns"`
	P99  Foreseen `json:"p99_ns"`
	// Null is what is predicted of Rate without a model: as many grants as at the largest
	// load of the calibration.
	Null float64 `json:"null_acq_per_s"`
	// Refused is why there is no prediction; "" if there is one.
	Refused string `json:"refused,omitempty"`
	Valid   Valid  `json:"valid"` // of the measured run
}

// Foreseen is one figure, as measured and as predicted.
type Foreseen struct {
	Measured float64 `json:"measured"`
	// Same is the prediction for the very arrivals of the run, 0 in a closed loop.
	Same float64 `json:"same,omitempty"`
	// Low, Mid and High are the 5th, 50th and 95th percentile over fresh draws of the load.
	Low  float64 `json:"low"`
	Mid  float64 `json:"mid"`
	High float64 `json:"high"`
}

// Predicted is the prediction that an error is counted from: for the same arrivals where
// there is one, else the middle of the fresh draws.
func (f Foreseen) Predicted() float64 { return cmp.Or(f.Same, f.Mid) }

// Error is by what share [Foreseen.Predicted] is off: above 0 if it is too high; 0 if
// nothing was measured.
func (f Foreseen) Error() float64 {
	if f.Measured == 0 {
		return 0
	}
	return f.Predicted()/f.Measured - 1
}

// Inside reports whether the measured value lies within the predicted interval.
func (f Foreseen) Inside() bool { return f.Low <= f.Measured && f.Measured <= f.High }

// Name is the algorithm, and the client where there are several.
func (f *Forecast) Name() string {
	if f.Client == "" {
		return f.Algo
	}
	return f.Algo + "/" + f.Client
}

func (f Forecast) schema() (stored, known int, what string) {
	return f.Schema, ForecastSchema, "forecast"
}

// AppendForecasts opens a file of forecasts for appending, and makes it if it is not there.
// The forecasts that it has already are returned: a file that holds something else is refused.
func AppendForecasts(name string) (*Lines[Forecast], []Forecast, error) {
	return appendLines[Forecast](name)
}

// ReadForecasts reads the forecasts of a file. A line that was cut short is left out.
func ReadForecasts(name string) ([]Forecast, error) { return fileOf[Forecast](name) }
