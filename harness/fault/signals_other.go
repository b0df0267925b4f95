//go:build !unix

package fault

import "os"

// signals are nil where a process cannot be stopped.
func signals() (halt, resume os.Signal) { return nil, nil }
