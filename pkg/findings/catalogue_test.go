// SPDX-License-Identifier: Apache-2.0

package findings

import "testing"

// TestFindRefusesTwoValues: a placeholder with two values would be filled with
// either.
func TestFindRefusesTwoValues(t *testing.T) {
	t.Parallel()
	if f := Find(ServiceDown, "state", "stopped", "other", "x"); f.Says != "the service does not run: stopped" {
		t.Errorf("it says %q", f.Says)
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
			Find(ServiceDown, values...)
		})
	}
}
