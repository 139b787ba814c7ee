// SPDX-License-Identifier: Apache-2.0

package messageid

import (
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/stabletest"
)

// TestStable holds the kinds of journal entries to docs/reference/stable.
func TestStable(t *testing.T) {
	t.Parallel()
	lines := make([]string, 0, len(ids))
	for event, id := range ids {
		lines = append(lines, event+" "+id)
	}
	stabletest.Check(t, *update, "../../..", "events", lines)
}
