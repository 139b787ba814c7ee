// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun holds that a guest has another kernel with bonding and VLAN links, that it gets
// the job's files, and that the status of its script is returned. Only the guest has its marker.
func TestRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mmdebstrap")
	}
	if Inside() {
		t.Error("this machine counts as a guest")
	}
	given := filepath.Join(t.TempDir(), "given")
	if err := os.WriteFile(given, []byte("as given\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	printed, err := Run(t.Context(), "../../../.cache", Job{
		Arch:  "amd64",
		Files: map[string]string{"/a/b/file": given},
		Script: "uname -s -m; cat /a/b/file; read -r line </proc/cmdline; echo ${line##* }\n" +
			"ip link add bond7 type bond && ip link add link bond7 name tagged type vlan id 7 && ip -br link show tagged\n" +
			"exit 3\n",
	})
	if err == nil || !strings.HasSuffix(err.Error(), "ended with status 3") {
		t.Errorf("error %v, want the script's status", err)
	}
	want := "Linux x86_64\nas given\n" + marker + "\ntagged@bond7 "
	if !strings.HasPrefix(printed, want) {
		t.Errorf("output %q, want the prefix %q", printed, want)
	}
}
