// SPDX-License-Identifier: Apache-2.0

package textfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/internal/textfile"
)

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"empty": "", "fits": "12345", "long": "123456"} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := textfile.Read(path("empty"), 5); err != nil || data == nil || len(data) != 0 {
		t.Errorf("empty: %v, %v", data, err)
	}
	if data, err := textfile.Read(path("fits"), 5); err != nil || string(data) != "12345" {
		t.Errorf("fits: %q, %v", data, err)
	}
	if _, err := textfile.Read(path("long"), 5); !errors.Is(err, textfile.ErrTooLong) {
		t.Errorf("long: %v", err)
	}
	if _, err := textfile.Read(path("absent"), 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	for _, odd := range []string{path("fifo"), dir} { // must not wait for a writer
		if _, err := textfile.Read(odd, 5); err == nil || !strings.Contains(err.Error(), odd) {
			t.Errorf("%s: %v", odd, err)
		}
	}
}
