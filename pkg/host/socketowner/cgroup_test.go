// SPDX-License-Identifier: Apache-2.0

//go:build linux

package socketowner

import (
	"strings"
	"testing"
)

func TestFindMount(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"only version 2": {
			"24 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n" +
				"35 25 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 none rw,nsdelegate\n",
			"/sys/fs/cgroup",
		},
		"beside version 1": {
			"31 29 0:27 / /sys/fs/cgroup/systemd rw,relatime - cgroup none rw,name=systemd\n" +
				"32 29 0:28 / /sys/fs/cgroup/unified rw,relatime shared:12 master:3 - cgroup2 none rw\n",
			"/sys/fs/cgroup/unified",
		},
		"a subdirectory first": {
			"35 25 0:30 /a /mnt/a rw - cgroup2 none rw\n" +
				"36 25 0:30 / /sys/fs/cgroup rw - cgroup2 none rw\n",
			"/sys/fs/cgroup",
		},
		"only a subdirectory": {"35 25 0:30 /a /mnt/a rw - cgroup2 none rw\n", "/mnt/a"},
		"only version 1":      {"31 29 0:27 / /sys/fs/cgroup/systemd rw - cgroup none rw,name=systemd\n", ""},
		"broken":              {"35 25 - cgroup2 none rw\n\nx\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := findMount(strings.NewReader(tt.text)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
