// SPDX-License-Identifier: Apache-2.0

package arm64

import (
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/guest"
)

const arch = "arm64"

// runGuest runs a job in an arm64 machine, and returns its output.
func runGuest(t *testing.T, job guest.Job) string {
	t.Helper()
	job.Script = "uname -m\n" + job.Script
	printed, err := guest.Run(t.Context(), "../../../.cache", job)
	t.Log(printed)
	if err != nil {
		t.Error(err)
	}
	if !slices.Contains(strings.Split(printed, "\n"), "aarch64") {
		t.Error("the guest is not an arm64 machine")
	}
	return printed
}

// expectPassed expects that tests passed. A skipped test counts as not passed.
func expectPassed(t *testing.T, printed string, tests ...string) {
	t.Helper()
	for _, test := range tests {
		if !strings.Contains(printed, "--- PASS: "+test+" (") {
			t.Errorf("%s did not pass", test)
		}
	}
}
