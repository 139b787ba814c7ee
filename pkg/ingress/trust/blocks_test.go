// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
)

// TestPublicCases: files of public reports. A byte order mark is accepted before any
// certificate, and wrong line breaks are rejected with that reason and a command that converts
// the file.
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
	const literal, alone, spaces, glued = `the line breaks are the two characters \n`, "the line ends are CR alone",
		"the line breaks are spaces", "an END line and the next BEGIN line are one line"
	const whole = "the BEGIN line has no line break"
	broken := func(lineBreak string) string { return strings.ReplaceAll(a+b, "\n", lineBreak) }
	// With an error, roots is the number of certificates after the command of the remediation.
	for name, tt := range map[string]struct {
		text  string
		at    time.Time
		roots int
		err   string
	}{
		"a mark before the second one": {read("bom-before-second-certificate.pem"), now, 2, ""},
		"a mark before each one":       {mark + a + mark + b + mark + validCA(t, "C"), noon, 3, ""},
		"a mark before a comment":      {mark + "# A\n" + a + mark + "# B\n" + b + mark, noon, 2, ""},
		"literal":                      {read("literal-backslash-n.pem"), now, 1, "line 1: " + literal},
		"literal CRLF":                 {broken(`\r\n`), noon, 2, "line 1: " + literal},
		"literal, escaped twice":       {broken(`\\n`), noon, 2, "line 1: " + literal},
		"literal, a JSON string":       {`"` + broken(`\n`) + "\"\n", noon, 2, "line 1: " + literal},
		"literal in the second one":    {"# A\n" + a + strings.ReplaceAll(b, "\n", `\n`) + "\n", noon, 2, literal},
		"CR alone":                     {read("cr-only.pem"), now, 1, "line 1: " + alone},
		"CR alone after a comment":     {"# A\r" + mark + broken("\r"), noon, 2, "line 1: " + alone},
		"spaces":                       {broken(" "), noon, 2, "line 1: " + spaces},
		"spaces, indented":             {"  " + broken("  ") + "\n", noon, 2, "line 1: " + spaces},
		"tabs":                         {broken("\t"), noon, 2, "line 1: " + spaces},
		"no line breaks":               {broken(""), noon, 2, "line 1: " + whole},
		"glued":                        {strings.TrimSuffix(a, "\n") + b, noon, 2, glued},
		"glued, CRLF":                  {strings.ReplaceAll(strings.TrimSuffix(a, "\n")+b, "\n", "\r\n"), noon, 2, glued},
		"glued with a space":           {strings.TrimSuffix(a, "\n") + " " + b, noon, 2, glued},
		"glued by a mark":              {strings.TrimSuffix(a, "\n") + mark + b, noon, 2, glued},
		"joined by a literal":          {strings.TrimSuffix(a, "\n") + `\n` + b, noon, 2, literal},
		"joined by a literal CRLF":     {strings.TrimSuffix(a, "\n") + `\r\n` + mark + b, noon, 2, literal},
		"joined by a CR":               {strings.TrimSuffix(a, "\n") + "\r" + b, noon, 2, alone},
		"joined by a CR, else CRLF": {strings.ReplaceAll(strings.TrimSuffix(a, "\n"), "\n", "\r\n") + "\r" +
			strings.ReplaceAll(b, "\n", "\r\n"), noon, 2, alone},
		"joined, and a good one":         {strings.TrimSuffix(a, "\n") + `\n` + b + validCA(t, "C"), noon, 3, literal},
		"two marks":                      {mark + mark + a + mark + mark + b, noon, 2, ""},
		"text that only names the mark":  {"# -----BEGIN of the file\n" + a, noon, 1, ""},
		"a comment that quotes the mark": {"# a line -----BEGIN CERTIFICATE----- begins each one\n" + a, noon, 1, ""},
		"a frame of dashes":              {"----------BEGIN CAs----------\n" + a, noon, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := []byte(tt.text)
			if tt.err != "" {
				_, err := trust.Filter(text, tt.at)
				var rejection *trust.Rejection
				if !errors.As(err, &rejection) || rejection.Truncated || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("%v, want %s", err, tt.err)
				}
				text = converted(t, text, rejection.Remediation)
			}
			bundle, err := trust.Filter(text, tt.at)
			if err != nil || len(bundle.Roots) != tt.roots || len(bundle.Skipped) > 0 {
				t.Errorf("%d certificates, skipped %v, %v in\n%s", len(bundle.Roots), bundle.Skipped, err, text)
			}
		})
	}
}

// converted returns what the command of a remediation makes of a file.
func converted(t *testing.T, text []byte, remediation string) []byte {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "FILE"), text, 0o600))
	command, is := strings.CutPrefix(remediation, "convert it: ")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); !is || err != nil {
		t.Fatalf("%s: %v: %s", remediation, err, out)
	}
	made, err := os.ReadFile(filepath.Join(dir, "ca-bundle.crt"))
	must(t, err)
	return made
}
