// SPDX-License-Identifier: Apache-2.0

package host

import (
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
