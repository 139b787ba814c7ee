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

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
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
	if err := os.Symlink("loop", path("loop")); err != nil {
		t.Fatal(err)
	}
	if _, err := textfile.Read(path("loop"), 5); !errors.Is(err, syscall.ELOOP) || !strings.HasSuffix(err.Error(),
		": replace the symbolic link, which leads to itself, by a file") {
		t.Errorf("a link to itself: %v", err)
	}
	for _, name := range []string{path("fifo"), dir} { // Read must not wait for a writer
		if _, err := textfile.Read(name, 5); err == nil || err.Error() != name+" is not a regular file: replace it by one" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReplace: the file has the old content or the new one, and no other file remains.
func TestReplace(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(dir, "kept")
	for _, text := range []string{"one", "", "three"} {
		if err := textfile.Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil || string(got) != text || info.Mode() != 0o600 {
			t.Errorf("%q, %v, %v, %v", got, err, info, statErr)
		}
	}
	if err := textfile.Replace(dir, nil); err == nil {
		t.Error("a directory was replaced")
	}
	for folder, want := range map[string]int{dir: 1, filepath.Dir(dir): 1} {
		if entries, err := os.ReadDir(folder); err != nil || len(entries) != want {
			t.Errorf("%s holds %v, %v", folder, entries, err)
		}
	}
}

// TestReplaceWith: the file has its mode before it has its name, and an error leaves the old file.
func TestReplaceWith(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kept")
	failure := errors.New("no label")
	for _, want := range []error{nil, failure} {
		err := textfile.ReplaceWith(path, []byte("text"), func(temporary string) error {
			if got, err := os.ReadFile(temporary); err != nil || string(got) != "text" {
				t.Errorf("the temporary file has %q, %v", got, err)
			}
			return errors.Join(os.Chmod(temporary, 0o644), want)
		})
		if !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("got %v, want %v", err, want)
		}
		info, err := os.Stat(path)
		entries, readErr := os.ReadDir(filepath.Dir(path))
		if err != nil || readErr != nil || info.Mode() != 0o644 || len(entries) != 1 {
			t.Errorf("%v, %v, %v, %v", info, entries, err, readErr)
		}
	}
}
