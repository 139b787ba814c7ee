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

// `journalctl -x` explains the entries of a challenge, with the entry's own
// fields in the text, once the unit that is for hosts without the installer has
// run. Without the file the database is, byte for byte, what it was.
func TestJournalCatalog(t *testing.T) {
	s := startServing(t)
	was, err := s.master.ReadFile(catalogDatabase)
	s.requireNoError(err)
	s.installCatalog()
	s.systemctl("start", catalogUnit)
	token := s.challenge()[0]

	want := []string{
		"Subject: A challenge for " + apiName + " has begun", "Defined-By: http01-proxyd",
		"asked from " + s.client[0].String() + ":", "and got 200.",
	}
	s.until("an explanation of the challenge", func(ctx context.Context) error {
		text, err := s.master.Run(ctx, "journalctl", "-x", "--unit="+unit, "EVENT=challenge-started", "TOKEN_PREFIX="+token[:8])
		for _, w := range want {
			if err == nil && !strings.Contains(text, w) {
				err = fmt.Errorf("it lacks %q:\n%s", w, text)
			}
		}
		return err
	})
	s.expectCatalogFields()
	t.Log(s.run("journalctl", "-x", "--unit="+unit, "EVENT=challenge-started", "TOKEN_PREFIX="+token[:8]))

	s.requireNoError(s.master.RemoveFile(catalogPath))
	s.systemctl("start", catalogUnit)
	is, err := s.master.ReadFile(catalogDatabase)
	s.requireNoError(err)
	if is != was {
		t.Error("the database is not what it was before")
	}
}

// A catalog that cannot be read stands in the way of the explanations, and of
// nothing else: no unit counts as failed.
func TestBrokenForeignCatalog(t *testing.T) {
	s := newService(t, false)
	s.installCatalog()
	const broken = "/usr/local/lib/systemd/catalog/broken.catalog"
	s.requireNoError(s.master.WriteFile(broken, "what has no id before it\n", 0o644))
	t.Cleanup(func() { s.requireNoError(s.master.RemoveFile(broken)) })
	if _, err := s.master.Run(t.Context(), "journalctl", "--update-catalog"); err == nil {
		t.Fatal("journalctl takes it")
	}
	s.systemctl("start", catalogUnit)
	if failed := s.systemctl("list-units", "--failed", "--plain", "--no-legend"); strings.Contains(failed, catalogUnit) {
		t.Error(failed)
	}
}

// installCatalog brings the file and the unit, for the test.
func (s *service) installCatalog() {
	s.t.Helper()
	unitPath := "/etc/systemd/system/" + catalogUnit
	sources := filepath.Join(host.Repository(), "systemd")
	s.requireNoError(errors.Join(
		s.master.Install(filepath.Join(sources, "http01-proxyd.catalog"), catalogPath, 0o644),
		s.master.Install(filepath.Join(sources, catalogUnit), unitPath, 0o644),
	))
	s.systemctl("daemon-reload")
	s.runOnCleanup("journalctl", "--update-catalog")
	s.runOnCleanup("systemctl", "daemon-reload")
	s.t.Cleanup(func() { s.requireNoError(errors.Join(s.master.RemoveFile(catalogPath), s.master.RemoveFile(unitPath))) })
}

// expectCatalogFields: every field that the catalog names stands in the entry that it
// explains. journalctl prints the name of one that does not, without its "@".
func (s *service) expectCatalogFields() {
	s.t.Helper()
	text, err := s.master.ReadFile(catalogPath)
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
				s.t.Errorf("%q has no %s, which its explanation names: %v", e["MESSAGE"], field, e)
			}
		}
	}
	if checked == 0 {
		s.t.Error("the catalog names no field of these entries")
	}
}
