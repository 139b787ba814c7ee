// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocumentedStates: docs/reference/status.md has each reason of this package, and no
// other.
func TestDocumentedStates(t *testing.T) {
	t.Parallel()
	document := readFile(t, "../../docs/reference/status.md")
	documented := values(document, "(?m)^- `([A-Z]\\w+)` \\((?:True|False|Unknown)\\): ")
	for _, cell := range values(document, "(?:True|False): ((?:`\\w+`(?:, )?)+)") {
		documented = append(documented, values(cell, "`(\\w+)`")...)
	}
	var declared []string
	for _, file := range []string{"condition.go", "egress.go", "trust.go"} {
		declared = append(declared, values(readFile(t, file), `(?m)^(?:const )?\s*\w+\s+Reason\s+= "(\w+)"`)...)
	}
	declared = append(declared, "NotRequired") // of UpstreamTrustReady too
	slices.Sort(documented)
	slices.Sort(declared)
	if diff := cmp.Diff(declared, documented); diff != "" {
		t.Errorf("reasons (-declared +documented):\n%s", diff)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// values returns the first group of each match.
func values(text, expression string) []string {
	var all []string
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}
