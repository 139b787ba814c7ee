// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
)

// TestPublicCases: files of public reports. A byte order mark is accepted before any
// certificate, and wrong line breaks are rejected with that reason.
func TestPublicCases(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("testdata", "pem", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const mark = "\xef\xbb\xbf"
	a, b := validCA(t, "A"), validCA(t, "B")
	const literal, alone, spaces, glued = `the line breaks are the two characters \n`, "the line ends are CR alone", "the line breaks are spaces", "an END line and the next BEGIN line are one line"
	for name, tt := range map[string]struct {
		text  string
		at    time.Time
		roots int
		err   string // reason, and a part of the remediation
		fix   string
	}{
		"a mark before the second one":  {read("bom-before-second-certificate.pem"), now, 2, "", ""},
		"a mark before each one":        {mark + a + mark + b + mark + validCA(t, "C"), noon, 3, "", ""},
		"literal":                       {read("literal-backslash-n.pem"), now, 0, "line 1: " + literal, "printf '%b'"},
		"literal CRLF":                  {strings.ReplaceAll(a, "\n", `\r\n`), noon, 0, "line 1: " + literal, "printf '%b'"},
		"literal in the second one":     {a + strings.ReplaceAll(b, "\n", `\n`), noon, 0, literal, "printf '%b'"},
		"CR alone":                      {read("cr-only.pem"), now, 0, "line 1: " + alone, `tr '\r' '\n'`},
		"spaces":                        {strings.ReplaceAll(a, "\n", " "), noon, 0, "line 1: " + spaces, "sed -E"},
		"glued":                         {strings.TrimSuffix(a, "\n") + b, noon, 0, glued, "sed -i"},
		"text that only names the mark": {"# -----BEGIN of the file\n" + a, noon, 1, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bundle, err := trust.Filter([]byte(tt.text), tt.at)
			switch {
			case tt.err == "" && (err != nil || len(bundle.Roots) != tt.roots || len(bundle.Skipped) > 0):
				t.Errorf("%d certificates, skipped %v, %v", len(bundle.Roots), bundle.Skipped, err)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), tt.fix)):
				t.Errorf("%v, want %s", err, tt.err)
			}
		})
	}
}
