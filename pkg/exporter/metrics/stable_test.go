// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/stabletest"
)

// TestStable holds the metrics that alerts use to docs/reference/stable: the name, the type, the labels, and the
// values that do not depend on the host. The IDs of findings are in a list of their own.
func TestStable(t *testing.T) {
	t.Parallel()
	var lines []string
	for name, f := range gather(t, sample()) {
		var labels []string
		for _, m := range f.GetMetric() {
			labels = labels[:0]
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
				switch l.GetName() {
				case "client", "family", "outcome", "result":
					lines = append(lines, fmt.Sprintf("%s %s=%q", name, l.GetName(), l.GetValue()))
				}
			}
		}
		kind := strings.ToLower(f.GetType().String())
		lines = append(lines, fmt.Sprintf("%s %s {%s}", name, kind, strings.Join(labels, ",")))
	}
	stabletest.Check(t, *update, "../../..", "metrics", lines)
}
