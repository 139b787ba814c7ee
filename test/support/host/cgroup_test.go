// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestClaimCgroups holds that a sweep does not remove the cgroups of a running process.
func TestClaimCgroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: cgroups")
	}
	trees, err := findHierarchies()
	must(t, err)
	var names []string
	var locks []*os.File
	for range 2 {
		name, lock, err := claimCgroups()
		must(t, err)
		names, locks = append(names, name), append(locks, lock)
		t.Cleanup(func() {
			_ = lock.Close()
			if err := removeCgroups(context.Background(), name); err != nil {
				t.Error(err)
			}
		})
	}
	if names[0] == names[1] {
		t.Fatalf("two claims of %s", names[0])
	}
	// The number of hierarchies that still have each cgroup after a sweep.
	where := func() (found [2]int) {
		t.Helper()
		must(t, sweepCgroups())
		for i, name := range names {
			for _, tree := range trees.all() {
				if _, err := os.Stat(filepath.Join(tree, name)); err == nil {
					found[i]++
				}
			}
		}
		return found
	}
	all := len(trees.all())
	if got := where(); got != [2]int{all, all} {
		t.Errorf("after a sweep the claimed ones are in %v hierarchies, want all %d", got, all)
	}
	must(t, locks[0].Close())
	if got := where(); got != [2]int{0, all} {
		t.Errorf("after a sweep with the first one given up they are in %v hierarchies, want none and all %d", got, all)
	}
}

func TestParseMountinfo(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want hierarchies
	}{
		"version 2 alone": {
			"24 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n" +
				"35 25 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 none rw,nsdelegate,memory_recursiveprot\n",
			hierarchies{unified: "/sys/fs/cgroup"},
		},
		"both, with optional fields and without": {
			"30 29 0:26 / /sys/fs/cgroup/memory rw,relatime shared:10 - cgroup none rw,memory\n" +
				"31 29 0:27 / /sys/fs/cgroup/systemd rw,relatime - cgroup none rw,xattr,name=systemd\n" +
				"32 29 0:28 / /sys/fs/cgroup/unified rw,relatime shared:12 master:3 - cgroup2 none rw\n",
			hierarchies{unified: "/sys/fs/cgroup/unified", named: "/sys/fs/cgroup/systemd"},
		},
		"version 1 alone": {
			"31 29 0:27 / /sys/fs/cgroup/systemd rw,relatime - cgroup none rw,name=systemd\n",
			hierarchies{named: "/sys/fs/cgroup/systemd"},
		},
		"a name that only begins so":  {"31 29 0:27 / /x rw - cgroup none rw,name=systemd2\n", hierarchies{}},
		"nothing of the kind, broken": {"31 29 0:27 / /x rw cgroup2\n\n - cgroup2\n", hierarchies{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, parseMountinfo(tt.text), cmp.AllowUnexported(hierarchies{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
