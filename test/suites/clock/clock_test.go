// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/guest"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	hour     = time.Hour
	tenYears = 10 * 365 * 24 * time.Hour
)

// step is one step of the wall clock.
type step struct {
	name string
	by   time.Duration
}

// steps end at the time at which they begin.
func steps() []step {
	return []step{
		{"an hour forward", hour},
		{"an hour back", -hour},
		{"ten years forward", tenYears},
		{"ten years back", -tenYears},
	}
}

// TestSteps starts this test in a guest, where it steps the clock while the service holds
// VIPs and answers challenges.
func TestSteps(t *testing.T) {
	if guest.Inside() {
		stepAll(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: mmdebstrap")
	}
	service, err := lab.Binary(t.Context(), os.Getenv("HTTP01_PROXYD"))
	must(t, err)
	tests, err := lab.BuildTests(t.Context(), "suites/clock", runtime.GOARCH)
	must(t, err)
	printed, err := guest.Run(t.Context(), "../../../.cache", guest.Job{
		Arch:   runtime.GOARCH,
		Files:  map[string]string{"/programs/tests": tests, programInGuest: service},
		Script: "/programs/tests -test.v -test.run '^TestSteps$'\n",
	})
	t.Log(printed)
	must(t, err)
	if !strings.Contains(printed, "--- PASS: TestSteps (") {
		t.Error("TestSteps did not pass in the guest") // a skipped test counts as not passed
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
