// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
)

// TestFileSettles: a file that is being replaced is not used.
func TestFileSettles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "proxy.env")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := egress.NewFile(path)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expectError := func(want string) {
		t.Helper()
		s, err := f.Settings()
		got := s.RedactedHTTP()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	refresh := func(waits bool) {
		t.Helper()
		if again := f.Refresh(now); (again > 0) != waits {
			t.Errorf("again after %v", again)
		}
	}
	refresh(false) // a first look waits for nothing
	expectError("")
	write("HTTP_PROXY=http://one\n")
	refresh(true)
	expectError("")
	now = now.Add(time.Second)
	refresh(false)
	expectError("http://one")
	write("") // an in-place write begins so
	refresh(true)
	now = now.Add(100 * time.Millisecond)
	refresh(true)
	write("HTTP_PROXY=http://two\n")
	refresh(true)
	expectError("http://one")
	now = now.Add(100 * time.Millisecond)
	refresh(false)
	expectError("http://two")
	write("HTTP_PROXY=\"http://us3r:s3cret@")
	refresh(true)
	expectError("http://two")
	now = now.Add(time.Second)
	refresh(false)
	expectError(path + ": line 1: HTTP_PROXY: the value is incomplete or has quotes or backslashes inside: " +
		"write NAME=value in one line, or check the program that writes the file")
	write("HTTP_PROXY=http://two\n")
	refresh(true)
	now = now.Add(time.Second)
	refresh(false)
	expectError("http://two")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	refresh(true)
	now = now.Add(-time.Hour) // the clock was set
	refresh(true)
	now = now.Add(time.Second)
	refresh(false)
	expectError("")

	if _, err := egress.ReadFile(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	write("HTTP_PROXY=ftp://us3r:s3cret@p\n")
	if _, err := egress.ReadFile(path); err == nil || !strings.HasPrefix(err.Error(),
		path+": line 1: HTTP_PROXY has a scheme") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("refused: %v", err)
	}
}
