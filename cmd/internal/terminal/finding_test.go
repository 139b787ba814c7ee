// SPDX-License-Identifier: Apache-2.0

package terminal_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
)

// TestFindingsWidth: on a terminal of any width, lines end with words, and a URL is whole.
func TestFindingsWidth(t *testing.T) {
	t.Parallel()
	const url = "https://docs.example.com/runbooks/certificate-expired-on-all-nodes.html"
	finding := terminal.Finding{
		ID: "certificate-replaces-internal", Level: "problem", Check: "certificate", Symptom: "Nodes are not ready.",
		Message: "The certificate is for another name.", Remediation: "Log in as in " + url + " and renew it.",
		Verification: "Run it again.", Documentation: url + "#certificate-replaces-internal",
	}
	for _, width := range []int{40, 80, 200} {
		var out strings.Builder
		if err := terminal.Findings([]terminal.Finding{finding}).Write(&out, terminal.View{Width: width}); err != nil {
			t.Fatal(err)
		}
		if strings.Count(out.String(), url) != 2 || strings.Contains(out.String(), "…") {
			t.Errorf("width %d:\n%s", width, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > width && !strings.Contains(line, url) {
				t.Errorf("width %d: a line of %d characters: %s", width, n, line)
			}
		}
	}
}
