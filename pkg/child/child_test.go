// SPDX-License-Identifier: Apache-2.0

package child

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	for cores, want := range map[int]string{1: "GOMAXPROCS=1", 2: "GOMAXPROCS=2", 64: "GOMAXPROCS=2"} {
		got := environment([]string{"GOMAXPROCS=64", "NOTIFY_SOCKET=/run/x", "GOMEMLIMIT=1MiB", "LISTEN_FDS=1"}, cores)
		if diff := cmp.Diff([]string{"GOMEMLIMIT=1MiB", want}, got); diff != "" {
			t.Errorf("%d cores (-want +got):\n%s", cores, diff)
		}
	}
}
