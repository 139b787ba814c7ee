// SPDX-License-Identifier: Apache-2.0

package messageid_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/messageid"
)

var update = flag.Bool("update", false, "write the catalog")

const catalogPath = "../../../systemd/http01-proxyd.catalog"

// TestCatalogIsCurrent: `make docs` writes it.
func TestCatalogIsCurrent(t *testing.T) {
	if *update {
		if err := os.WriteFile(catalogPath, []byte(messageid.RenderCatalog()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	shipped, err := os.ReadFile(catalogPath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(messageid.RenderCatalog(), string(shipped)); diff != "" {
		t.Errorf("run make docs (-want +got):\n%s", diff)
	}
}

func TestCatalogEntries(t *testing.T) {
	t.Parallel()
	ids, events := make(map[string]bool), make(map[string]bool)
	for _, m := range messageid.All() {
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(m.ID) || ids[m.ID] || events[m.Event] {
			t.Errorf("%s: ID %q, or the event, is no good or stands twice", m.Event, m.ID)
		}
		ids[m.ID], events[m.Event] = true, true
		if messageid.MessageID(m.Event) != m.ID {
			t.Errorf("%s is not found", m.Event)
		}
		if m.Subject == "" || strings.Contains(m.Subject, "\n") {
			t.Errorf("%s: the subject is no line", m.Event)
		}
	}
	if messageid.MessageID("nothing") != "" {
		t.Error("an event that is not known has an ID")
	}
}

// TestEveryEventIsInCatalog: each event that the code logs is in the catalog.
func TestEveryEventIsInCatalog(t *testing.T) {
	t.Parallel()
	logged := regexp.MustCompile(`slog\.String\("event", "([^"]+)"\)|"EVENT": "([^"]+)"|Kind = "([^"]+)"`)
	found := 0
	err := filepath.WalkDir("../..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range logged.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[0], "Kind") && !strings.Contains(path, "challengelog") {
				continue
			}
			found++
			if event := m[1] + m[2] + m[3]; messageid.MessageID(event) == "" {
				t.Errorf("%s logs %q, which is not in the catalog", path, event)
			}
		}
		return nil
	})
	if err != nil || found < 20 {
		t.Errorf("%d events found: %v", found, err)
	}
}
