// SPDX-License-Identifier: Apache-2.0

package findings

import "testing"

// TestNewRejectsDuplicateValues: a placeholder with two values would be filled with
// either.
func TestNewRejectsDuplicateValues(t *testing.T) {
	t.Parallel()
	if f := New(ServiceNotRunning, "state", "stopped", "other", "x"); f.Message != "the service does not run: stopped" {
		t.Errorf("it says %q", f.Message)
	}
	for name, values := range map[string][]string{
		"two values":      {"state", "stopped", "state", "failed"},
		"a value missing": {"state"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("it does not panic")
				}
			}()
			New(ServiceNotRunning, values...)
		})
	}
}
