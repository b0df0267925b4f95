package fault

import (
	"os"
	"testing"

	"github.com/lockbench/lockbench/harness/server/builtin"
)

func TestMain(m *testing.M) {
	builtin.Main()
	os.Exit(m.Run())
}
