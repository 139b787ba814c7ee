// SPDX-License-Identifier: Apache-2.0

package child

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		command    string
		processors int
		want       []string
	}{
		{Proxy, 1, []string{"GOGC=50", "GOMEMLIMIT=912MiB", "GOMAXPROCS=1"}},
		{Proxy, 64, []string{"GOGC=50", "GOMEMLIMIT=912MiB", "GOMAXPROCS=2"}},
		{Prober, 64, []string{"GOGC=50", "GOMEMLIMIT=32MiB", "GOMAXPROCS=1"}},
		{Exporter, 64, []string{"GOGC=50", "GOMEMLIMIT=32MiB", "GOMAXPROCS=1"}},
	} {
		got := childEnvironment(tt.command, []string{
			"GOMAXPROCS=64", "NOTIFY_SOCKET=/run/x", "GOGC=50", "GOMEMLIMIT=1MiB",
			"LISTEN_FDS=1",
		}, 1<<30, tt.processors)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s, %d processors (-want +got):\n%s", tt.command, tt.processors, diff)
		}
	}
}

func TestProxyMemoryLimit(t *testing.T) {
	t.Parallel()
	for total, want := range map[int64]int64{
		240 << 20: 128 << 20, 1 << 30: 912 << 20, 100 << 20: 64 << 20,
		math.MaxInt64: 0,
	} {
		if got, limited := memoryLimit(Proxy, total); got != want || limited != (want != 0) {
			t.Errorf("of %d: %d, want %d", total, got, want)
		}
	}
}

// TestMemoryLimitsFitTheUnit: the limits of all processes add up to GOMEMLIMIT, and leave
// a part of MemoryMax for the kernel.
func TestMemoryLimitsFitTheUnit(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile("../../systemd/http01-proxyd.service")
	if err != nil {
		t.Fatal(err)
	}
	setting := func(pattern string) int64 {
		found := regexp.MustCompile(`(?m)^` + pattern + `([0-9]+)(?:M|MiB)$`).FindSubmatch(unit)
		if found == nil {
			t.Fatalf("the unit has no %s", pattern)
		}
		n, err := strconv.ParseInt(string(found[1]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n << 20
	}
	total, hard := setting("Environment=GOMEMLIMIT="), setting("MemoryMax=")
	sum := int64(ControllerMemory)
	for _, command := range []string{Proxy, Exporter, Prober} {
		limit, limited := memoryLimit(command, total)
		if !limited {
			t.Fatalf("%s has no limit", command)
		}
		sum += limit
	}
	if sum != total || sum > hard-16<<20 {
		t.Errorf("%d MiB together, of %d and %d MiB", sum>>20, total>>20, hard>>20)
	}
}
