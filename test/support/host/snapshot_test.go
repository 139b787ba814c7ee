// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

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
	of := func(place string) string {
		t.Helper()
		var is syscall.Stat_t
		if err := syscall.Lstat(place, &is); err != nil {
			t.Fatal(err)
		}
		sum, err := h.of(place, &is)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	seen := map[string]bool{}
	for _, content := range []string{"one", "two", "six"} {
		if err := os.WriteFile(fresh, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if sum := of(fresh); seen[sum] {
			t.Errorf("the hash of %q is that of an earlier content", content)
		} else {
			seen[sum] = true
		}
	}
	if len(h.known) != 0 {
		t.Errorf("%d hashes of a file that was just written are kept", len(h.known))
	}
	const old = "/etc/passwd"
	want := of(old)
	if len(h.known) != 1 {
		t.Fatalf("%d hashes are kept, want that of %s", len(h.known), old)
	}
	for v, sum := range h.known {
		if sum != want {
			t.Errorf("kept hash %s, want %s", sum, want)
		}
		h.known[v] = "kept"
	}
	if of(old) != "kept" {
		t.Errorf("%s was read again", old)
	}
}
