// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
)

const (
	catalogUnit     = "http01-proxyd-catalog.service"
	catalogPath     = "/usr/local/lib/systemd/catalog/http01-proxyd.catalog"
	catalogDatabase = "/var/lib/systemd/catalog/database"
)

// TestJournalCatalog holds that `journalctl -x` explains the entries of a challenge with
// their fields after the catalog unit ran. After the removal of the file the database
// is byte for byte the earlier one.
func TestJournalCatalog(t *testing.T) {
	s := startServing(t)
	was, err := s.node.ReadFile(catalogDatabase)
	s.requireNoError(err)
	s.installCatalog()
	s.systemctl("start", catalogUnit)
	token := s.challenge()[0]

	want := []string{
		"Subject: A challenge for " + apiName + " has started", "Defined-By: http01-proxyd",
		"was answered with 200. The client is", s.client[0].String() + ":",
	}
	s.until("the explanation of the challenge", func(ctx context.Context) error {
		text, err := s.node.Run(ctx, "journalctl", "-x", "--unit="+unit, "EVENT=challenge-started", "TOKEN_PREFIX="+token[:8])
		for _, w := range want {
			if err == nil && !strings.Contains(text, w) {
				err = fmt.Errorf("it lacks %q:\n%s", w, text)
			}
		}
		return err
	})
	s.expectCatalogFields()
	t.Log(s.run("journalctl", "-x", "--unit="+unit, "EVENT=challenge-started", "TOKEN_PREFIX="+token[:8]))

	s.requireNoError(s.node.RemoveFile(catalogPath))
	s.systemctl("start", catalogUnit)
	is, err := s.node.ReadFile(catalogDatabase)
	s.requireNoError(err)
	if is != was {
		t.Error("the catalog database has changed")
	}
}

// TestOtherCatalogBroken holds that an unreadable catalog of another package only
// prevents explanations: no unit fails.
func TestOtherCatalogBroken(t *testing.T) {
	s := newService(t, false)
	s.installCatalog()
	const broken = "/usr/local/lib/systemd/catalog/broken.catalog"
	s.requireNoError(s.node.WriteFile(broken, "what has no id before it\n", 0o644))
	t.Cleanup(func() { s.requireNoError(s.node.RemoveFile(broken)) })
	if _, err := s.node.Run(t.Context(), "journalctl", "--update-catalog"); err == nil {
		t.Fatal("journalctl accepts the broken catalog")
	}
	s.systemctl("start", catalogUnit)
	if failed := s.systemctl("list-units", "--failed", "--plain", "--no-legend"); strings.Contains(failed, catalogUnit) {
		t.Error(failed)
	}
}

// installCatalog installs the catalog and its unit for the test.
func (s *service) installCatalog() {
	s.t.Helper()
	unitPath := "/etc/systemd/system/" + catalogUnit
	sources := filepath.Join(host.Repository(), "systemd")
	s.requireNoError(errors.Join(
		s.node.Install(filepath.Join(sources, "http01-proxyd.catalog"), catalogPath, 0o644),
		s.node.Install(filepath.Join(sources, catalogUnit), unitPath, 0o644),
	))
	s.systemctl("daemon-reload")
	s.runOnCleanup("journalctl", "--update-catalog")
	s.runOnCleanup("systemctl", "daemon-reload")
	s.t.Cleanup(func() { s.requireNoError(errors.Join(s.node.RemoveFile(catalogPath), s.node.RemoveFile(unitPath))) })
}

// expectCatalogFields expects that every field in the catalog exists in the entry that it
// explains. journalctl prints the name of a missing field without its "@".
func (s *service) expectCatalogFields() {
	s.t.Helper()
	text, err := s.node.ReadFile(catalogPath)
	s.requireNoError(err)
	named := map[string][]string{}
	id := ""
	for line := range strings.Lines(text) {
		if after, found := strings.CutPrefix(line, "-- "); found {
			id = strings.TrimSpace(after)
		}
		for i, part := range strings.Split(line, "@") {
			if i%2 == 1 {
				named[id] = append(named[id], part)
			}
		}
	}
	checked := 0
	for _, e := range s.journal() {
		for _, field := range named[e["MESSAGE_ID"]] {
			checked++
			if _, found := e[field]; !found {
				s.t.Errorf("entry %q lacks the field %s of its explanation: %v", e["MESSAGE"], field, e)
			}
		}
	}
	if checked == 0 {
		s.t.Error("no entry has a field of the catalog")
	}
}
