// SPDX-License-Identifier: Apache-2.0

package check

import "testing"

// TestHealthy: where all is well, on the master that holds the VIPs and on one
// that does not, check finds nothing and exits with 0.
func TestHealthy(t *testing.T) {
	c := healthy(t, nil)
	for _, m := range c.Masters[:2] {
		r := c.exactly(m.Node, []string{})
		for _, result := range r.Checks {
			if result.Outcome != "ok" || result.Unseen != "" {
				t.Errorf("%s on %s: %s: %s %s", result.Name, m, result.Outcome, result.Text, result.Unseen)
			}
		}
	}
}
