// SPDX-License-Identifier: Apache-2.0

package docurl_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/docurl"
)

const repository = "../.."

// anchorOf returns the anchor that GitHub gives a heading.
func anchorOf(line string) string {
	kept := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(strings.TrimLeft(line, "# ")), "")
	return strings.ReplaceAll(strings.TrimSpace(kept), " ", "-")
}

// documentExists reports whether a document, or a section of one, exists.
func documentExists(t *testing.T, address string) bool {
	t.Helper()
	path, anchor, _ := strings.Cut(address, "#")
	text, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(path)))
	if err != nil {
		t.Log(err)
		return false
	}
	if anchor == "" {
		return true
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") && anchorOf(line) == anchor {
			return true
		}
	}
	return false
}

// TestEveryURLResolves checks the URLs of this package and of the shipped files.
func TestEveryURLResolves(t *testing.T) {
	t.Parallel()
	prefix := strings.TrimSuffix(docurl.Readme, "README.md")
	address := regexp.MustCompile(regexp.QuoteMeta(prefix) + `([A-Za-z0-9./#-]*[A-Za-z0-9])`)
	texts := map[string]string{"docurl": strings.Join([]string{docurl.Readme, docurl.Troubleshooting, docurl.CertificateExpired}, "\n")}
	for path, text := range shipped(t) {
		texts[path] = text
	}
	found := 0
	for path, text := range texts {
		for _, m := range address.FindAllStringSubmatch(text, -1) {
			found++
			if !documentExists(t, m[1]) {
				t.Errorf("%s: %s does not exist", path, m[0])
			}
		}
	}
	if found < 10 {
		t.Errorf("%d URLs found: did the prefix change?", found)
	}
}

// TestNoPathsAreShipped: units, the journal catalog and alerts name URLs, since their
// readers may have no checkout.
func TestNoPathsAreShipped(t *testing.T) {
	t.Parallel()
	path := regexp.MustCompile(`(?:^|[\s(])(?:docs/[a-z-]+\.md|README\.md)`)
	for name, text := range shipped(t) {
		for number, line := range strings.Split(text, "\n") {
			if !strings.HasPrefix(strings.TrimSpace(line), "#") && path.MatchString(line) {
				t.Errorf("%s:%d: a path instead of a URL: %s", name, number+1, line)
			}
		}
	}
}

// shipped returns the texts of the files that are installed on hosts and clusters.
func shipped(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, dir := range []string{"systemd", "machineconfigs"} {
		err := filepath.WalkDir(filepath.Join(repository, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, ".md") {
				return err
			}
			text, err := os.ReadFile(path)
			texts[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return texts
}
