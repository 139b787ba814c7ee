// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// must ends the test after an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
