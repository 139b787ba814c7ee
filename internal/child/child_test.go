// SPDX-License-Identifier: Apache-2.0

package child

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	for cores, want := range map[int]string{1: "GOMAXPROCS=1", 2: "GOMAXPROCS=2", 64: "GOMAXPROCS=2"} {
		got := childEnvironment("prober", []string{"GOMAXPROCS=64", "NOTIFY_SOCKET=/run/x", "GOGC=50", "GOMEMLIMIT=1MiB", "LISTEN_FDS=1"}, cores)
		if diff := cmp.Diff([]string{"GOGC=50", "GOMEMLIMIT=32MiB", want}, got); diff != "" {
			t.Errorf("%d cores (-want +got):\n%s", cores, diff)
		}
	}
}

func TestProxyMemoryLimit(t *testing.T) {
	t.Parallel()
	for whole, want := range map[string]string{
		"240MiB": "GOMEMLIMIT=128MiB", "1GiB": "GOMEMLIMIT=912MiB", "251658240": "GOMEMLIMIT=128MiB", "245760KiB": "GOMEMLIMIT=128MiB",
		"100MiB": "GOMEMLIMIT=64MiB", "": "", "off": "", "-1": "", "99999999999TiB": "",
	} {
		if got, is := memoryLimitEntry("proxy", whole); got != want || is != (want != "") {
			t.Errorf("of %q: %q, want %q", whole, got, want)
		}
	}
}

// What the processes may take together fits into what the unit may have, with
// something left for what the kernel holds for them.
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
	whole, hard := setting("Environment=GOMEMLIMIT="), setting("MemoryMax=")
	sum := int64(ControllerMemory)
	for _, command := range []string{"proxy", "exporter", "prober"} {
		entry, _ := memoryLimitEntry(command, strconv.FormatInt(whole, 10))
		limit, is := parseMemory(strings.TrimPrefix(entry, memoryLimitVariable+"="))
		if !is {
			t.Fatalf("%s: %q", command, entry)
		}
		sum += limit
	}
	if sum != whole || sum > hard-16<<20 {
		t.Errorf("%d MiB together, of %d and %d MiB", sum>>20, whole>>20, hard>>20)
	}
}
