// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTimeServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dhcp.sources"), []byte("server 192.0.2.123 iburst\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "chrony.conf")
	if err := os.WriteFile(path,
		[]byte("# server commented\nPool 2.rhel.pool.ntp.org iburst\nserver time.example.com\nserver time.example.com "+
			"nts\npeer 2001:db8::123\nsourcedir "+dir+"\nsourcedir /absent\nmakestep 1.0 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"192.0.2.123", "2.rhel.pool.ntp.org", "2001:db8::123", "time.example.com"},
		Servers(path)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
