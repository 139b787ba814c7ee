// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"context"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/labtest"
)

// shared has the program and the context of the run.
var shared struct {
	binary string
	ctx    context.Context //nolint:containedctx // of the whole run
}

func TestMain(m *testing.M) {
	labtest.Main(m, func(run context.Context, binary string) {
		shared.ctx, shared.binary = run, binary
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
