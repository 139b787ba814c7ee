// SPDX-License-Identifier: Apache-2.0

package page

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/browser"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/labtest"
)

// shared holds the lab that all tests use, and the program.
var shared struct {
	lab    *lab.Lab
	binary string
}

func TestMain(m *testing.M) {
	labtest.Shared(m, func(l *lab.Lab, binary string) error {
		shared.lab, shared.binary = l, binary
		return nil
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// chromium starts a browser until the test ends.
func chromium(t *testing.T) *browser.Browser {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a browser without a network")
	}
	b, err := browser.Start(t.TempDir())
	must(t, err)
	t.Cleanup(func() { must(t, b.Close()) })
	return b
}

// save writes a page to a file and returns its path.
func save(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
