// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSnapshotDiff(t *testing.T) {
	t.Parallel()
	before := Snapshot{
		Files:   map[string]string{"/a": "same", "/b": "old", "/c": "goes"},
		Outputs: map[string]string{"list": "one\ntwo\nthree", "mixed": "a\nb", "quiet": ""},
	}
	later := Snapshot{
		Files:   map[string]string{"/a": "same", "/b": "new", "/d": "comes"},
		Outputs: map[string]string{"list": "one\nthree\nfour", "mixed": "b\na", "quiet": ""},
	}
	want := "/b\n\t- old\n\t+ new\n" +
		"/c\n\t- goes\n" +
		"/d\n\t+ comes\n" +
		"list\n\t- two\n\t+ four\n" +
		"mixed\n\tthe same lines in another order or number\n"
	if diff := cmp.Diff(want, before.Diff(later)); diff != "" {
		t.Errorf("before to later (-want +got):\n%s", diff)
	}
	if same := before.Diff(before); same != "" {
		t.Errorf("with itself: %q", same)
	}
}

// TestHashes holds that a file is read again after a write that keeps its size, and that
// an old file is read once.
func TestHashes(t *testing.T) {
	t.Parallel()
	h := hashes{known: map[version]string{}}
	file := filepath.Join(t.TempDir(), "file")
	// of returns the hash of the file at an age.
	of := func(age time.Duration) string {
		t.Helper()
		var is syscall.Stat_t
		if err := syscall.Lstat(file, &is); err != nil {
			t.Fatal(err)
		}
		sum, err := h.of(file, &is, time.Unix(is.Ctim.Unix()).Add(age))
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	seen := map[string]bool{}
	for _, content := range []string{"one", "two", "six"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if sum := of(settled); seen[sum] {
			t.Errorf("the hash of %q is that of an earlier content", content)
		} else {
			seen[sum] = true
		}
	}
	if len(h.known) != 0 {
		t.Errorf("%d hashes of a file that was just written are kept", len(h.known))
	}
	want := of(settled + time.Nanosecond)
	if len(h.known) != 1 {
		t.Fatalf("%d hashes are kept, want one", len(h.known))
	}
	for v, sum := range h.known {
		if sum != want {
			t.Errorf("kept hash %s, want %s", sum, want)
		}
		h.known[v] = "kept"
	}
	if of(settled) != "kept" {
		t.Error("the file was read again")
	}
}
