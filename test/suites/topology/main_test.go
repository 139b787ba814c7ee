// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"sync"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/labtest"
)

// shared is the program, what ends when a signal does, and what the guest that
// runs tests under another kernel has printed, which starts when first asked for.
var shared struct {
	binary    string
	ctx       context.Context //nolint:containedctx // the whole run's
	elsewhere func() (string, error)
}

func TestMain(m *testing.M) {
	labtest.Main(m, func(run context.Context, binary string) {
		shared.ctx, shared.binary = run, binary
		shared.elsewhere = sync.OnceValues(func() (string, error) { return runInGuest(run) })
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
