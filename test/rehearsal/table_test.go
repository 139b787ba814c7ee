// SPDX-License-Identifier: Apache-2.0

package rehearsal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
)

// The list of docs/troubleshooting.md, and its items with the text.
var (
	section = regexp.MustCompile("(?s)\n## By cert-manager's message\n(.*?)\n## ")
	row     = regexp.MustCompile("(?m)^- `([^`]+)`:.*")
)

// tableRow is a row of the table.
type tableRow struct {
	text       string
	expression *regexp.Regexp // an ellipsis stands for any text
	row        string
}

// cause reports whether the text names a cause: the row of the prefix has no finding.
func (r tableRow) cause() bool { return !strings.HasPrefix(r.text, "Waiting for ") }

// table returns the rows of the table.
func table(t *testing.T) (all []tableRow) {
	t.Helper()
	text := must1(os.ReadFile(filepath.Join("..", "..", "docs", "troubleshooting.md")))(t)
	found := section.FindSubmatch(text)
	if found == nil {
		t.Fatal("docs/troubleshooting.md has no section about cert-manager's messages")
	}
	for _, r := range row.FindAllStringSubmatch(string(found[1]), -1) {
		all = append(all, tableRow{r[1], regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(r[1]), "…", ".*")), r[0]})
	}
	if len(all) < 10 {
		t.Errorf("the table has %d texts", len(all))
	}
	return all
}

// other reports whether only other releases of cert-manager write the text.
func (s *shared) other(text string) bool {
	if strings.HasPrefix(text, "did not get expected response when") {
		return s.release == cluster.CertManager121
	}
	newest := strings.HasPrefix(text, "did not get expected response") || strings.HasSuffix(text, "without self-check")
	return newest && s.release != cluster.CertManager121
}

// compareTable expects that cert-manager wrote each text of its release in the table of
// docs/troubleshooting.md, and that each text with a finding has a row that names it.
func (s *shared) compareTable(t *testing.T) {
	t.Helper()
	rows := table(t)
	for _, r := range rows {
		if s.other(r.text) {
			continue
		}
		one, is := s.messages.find("", r.expression)
		if !is {
			t.Errorf("cert-manager has not written %q", r.text)
			continue
		}
		t.Logf("%s\n%s", r.text, one)
	}
	for _, p := range s.pairs {
		// The lab's DNS server answers with an empty referral instead of NXDOMAIN.
		text := strings.Replace(p.text, "lame referral", "no such host", 1)
		matches := func(r tableRow) bool { return r.cause() && r.expression.MatchString(text) }
		if text != "" && !slices.ContainsFunc(rows, matches) {
			t.Errorf("no row has the text %q", text)
		}
		for _, r := range rows {
			if matches(r) && !strings.Contains(r.row, "["+p.finding+"]") {
				t.Errorf("the row of %q lacks %s", r.text, p.finding)
			}
		}
	}
}
