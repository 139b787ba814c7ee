// SPDX-License-Identifier: Apache-2.0

package frontdoor

import (
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/control"
	"github.com/http01-proxyd/http01-proxyd/pkg/upstream"
)

// TestDetailIsToldWhole: the keeper gets a diagnosis with the mend at its end.
func TestDetailIsToldWhole(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", upstream.MaxDetail)
	if got := control.Line(text); got != text {
		t.Errorf("%d of %d bytes are told", len(got), len(text))
	}
}
