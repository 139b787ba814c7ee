// SPDX-License-Identifier: Apache-2.0

package textfile_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

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

// TestKernelFiles: a file that the kernel invents is regular. Reading one can block, or change something.
func TestKernelFiles(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/proc/kmsg", link); err != nil { // blocks until the kernel writes a line
		t.Fatal(err)
	}
	for _, path := range []string{link, "/proc/self/status", "/proc/sys/kernel/ostype", "/sys/kernel/notes"} {
		if _, err := os.Lstat(path); err != nil {
			t.Fatal(err)
		}
		want := path + " is a file of the kernel, such as one in /proc or /sys: use a copy of it"
		if _, err := textfile.Read(path, 1<<20); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, mode, err := textfile.ReadMode(os.Args[0], 5); !errors.Is(err, textfile.ErrTooLong) || mode.Perm()&0o111 == 0 {
		t.Errorf("the program: %v, %v", mode, err)
	}
	if _, err := textfile.Read("/dev/null", 5); !errors.Is(err, textfile.ErrNotRegular) {
		t.Errorf("a device: %v", err)
	}
}

// TestWithin: an access that hangs costs an error after a while, and others of its path cost one at once.
// Their number is bounded.
func TestWithin(t *testing.T) { //nolint:paralleltest // the bound is one for the process
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hang := func() (int, error) { <-release; return 1, io.ErrUnexpectedEOF }
		expect := func(path string, access func() (int, error), want error, after time.Duration) {
			t.Helper()
			begin := time.Now()
			value, err := textfile.Within(path, access)
			if !errors.Is(err, want) || (err == nil) != (value == 2) || time.Since(begin) != after {
				t.Errorf("%s: %d, %v after %v, want %v after %v", path, value, err, time.Since(begin), want, after)
			}
		}
		returns := func() (int, error) { <-time.After(time.Second); return 2, nil }
		expect("/a", hang, textfile.ErrHangs, textfile.Timeout)
		expect("/a", returns, textfile.ErrHangs, 0)
		expect("/b", returns, nil, time.Second)
		var others sync.WaitGroup
		for i := range 62 {
			others.Go(func() { expect(fmt.Sprintf("/%d", i), hang, textfile.ErrHangs, textfile.Timeout) })
		}
		others.Wait()
		expect("/b", returns, nil, time.Second)
		expect("/c", hang, textfile.ErrHangs, textfile.Timeout)
		expect("/b", returns, textfile.ErrHangs, 0)
		close(release)
		synctest.Wait()
		expect("/a", returns, nil, time.Second)
	})
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
