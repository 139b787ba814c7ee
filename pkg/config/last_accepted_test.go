// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

func TestLastAcceptedRoundTrip(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	a := config.NewLastAccepted(dir)
	if _, err := a.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Load without a copy: %v", err)
	}
	for _, text := range []string{`hosts: [a.example]`, `hosts: [b.example]`, ``} {
		if err := a.Save([]byte(text)); err != nil {
			t.Fatal(err)
		}
		want, err := config.Parse("x", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.Load()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(got.Hosts, " ") != strings.Join(want.Hosts, " ") {
			t.Errorf("Load returned hosts %v, want %v", got.Hosts, want.Hosts)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("the state directory contains %v, want only the copy", entries)
	}
}

func TestLastAcceptedSkipsUnchanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, copied := config.NewLastAccepted(dir), filepath.Join(dir, "last-accepted.yaml")
	if err := a.Save([]byte("hosts: []")); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(copied)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Save([]byte("hosts: []")); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(copied)
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) {
		t.Error("an unchanged copy was written again")
	}
}

func TestReadBounds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if data, err := config.Read(path); err != nil || len(data) != 0 {
		t.Errorf("absent file: %q, %v", data, err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("#", 300<<10)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Read(path); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("oversized file: %v", err)
	}
}
