//go:build !unix

package harness

import "math"

// processCPU is not known here; the metrics that need it are left out.
func processCPU() float64 { return math.NaN() }
