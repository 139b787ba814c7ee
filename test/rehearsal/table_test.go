// SPDX-License-Identifier: Apache-2.0

package rehearsal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table of docs/troubleshooting.md, and its rows with the text.
var (
	section = regexp.MustCompile("(?s)\n## By cert-manager's message\n(.*?)\n## ")
	row     = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*")
)

// compareTable expects that cert-manager has written each text of the table in
// docs/troubleshooting.md, and that its row has the finding of the same fault. An ellipsis
// stands for any text.
func (s *shared) compareTable(t *testing.T) {
	t.Helper()
	text := must1(os.ReadFile(filepath.Join("..", "..", "docs", "troubleshooting.md")))(t)
	found := section.FindSubmatch(text)
	if found == nil {
		t.Fatal("docs/troubleshooting.md has no section about cert-manager's messages")
	}
	rows := row.FindAllStringSubmatch(string(found[1]), -1)
	if len(rows) < 10 {
		t.Errorf("the table has %d texts", len(rows))
	}
	for _, r := range rows {
		expression := strings.ReplaceAll(regexp.QuoteMeta(r[1]), "…", ".*")
		one, is := s.messages.find("", regexp.MustCompile(expression))
		if !is {
			t.Errorf("cert-manager has not written %q", r[1])
			continue
		}
		t.Logf("%s\n%s", r[1], one)
		for _, p := range s.pairs {
			// The row of the prefix has no finding.
			if !strings.HasPrefix(r[1], "Waiting for ") && regexp.MustCompile(expression).MatchString(p.text) && !strings.Contains(r[0], "["+p.finding+"]") {
				t.Errorf("the row of %q lacks %s", r[1], p.finding)
			}
		}
	}
}
