// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"sync"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/labtest"
)

// shared has the program, the context of the run, and the output of the guest with another
// kernel, which starts on first use.
var shared struct {
	binary    string
	ctx       context.Context //nolint:containedctx // of the whole run
	elsewhere func() (string, error)
}

func TestMain(m *testing.M) {
	labtest.Main(m, func(run context.Context, binary string) {
		shared.ctx, shared.binary = run, binary
		shared.elsewhere = sync.OnceValues(func() (string, error) { return runInVM(run) })
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
