// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// TestEveryFindingHasTest: for each entry, a test injects the fault with real
// components and expects it by ID. Unit tests cover entries without a check, and faults
// that cannot be injected.
func TestEveryFindingHasTest(t *testing.T) {
	t.Parallel()
	lab := readTests(t, "../../test/suites/check", "../../test/support/host", "../../test/suites/microshift")
	ingress := readTests(t, "../../test/suites/ingress")
	// The hosts of the tests have no SELinux policy.
	unreal := map[findings.ID]string{findings.SELinuxLabel: "service", findings.SELinuxUnit: "service"}
	for _, e := range findings.All() {
		id := regexp.QuoteMeta(string(e.ID))
		// A test with several possible findings separates them with |.
		named := regexp.MustCompile(`["|]` + id + `["|]`)
		// The tests of the ingress also name causes, some of which equal a finding's
		// ID.
		found := regexp.MustCompile(`finds:\s*"(?:[^"]*\|)?` + id + `["|]|p\.check\(t, \[\]string\{"` + id + `"`)
		var tested bool
		switch folder := unreal[e.ID]; {
		case e.JournalOnly:
			constant := regexp.MustCompile(`(?i)\bfindings\.` + strings.ReplaceAll(string(e.ID), "-", "") + `\b`)
			exchanges := readTests(t, "../proxy/upstream", "../proxy/server")
			tested = constant.Match(exchanges) || named.Match(exchanges)
		case e.Check == findings.PreflightCheck:
			tested = named.Match(readTests(t, "../cluster/preflight"))
		case e.Check == findings.IssuanceCheck:
			tested = named.Match(readTests(t, "../cluster/chain"))
		case e.ClusterOnly:
			tested = named.Match(readTests(t, "../cluster/condition"))
		case folder != "":
			tested = named.Match(readTests(t, folder))
		default:
			tested = named.Match(lab) || found.Match(ingress)
		}
		if !tested {
			t.Errorf("no test names %q: add one that injects the fault, usually in test/suites/check (CONTRIBUTING.md, "+
				"Add a finding)", e.ID)
		}
	}
}

// readTests is the text of the tests in some folders.
func readTests(t *testing.T, folders ...string) []byte {
	t.Helper()
	var all []byte
	for _, folder := range folders {
		paths, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no tests in %s: %v", folder, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
	}
	return all
}
