// SPDX-License-Identifier: Apache-2.0

package rehearsal_test

import (
	"os"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal"
	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
)

// TestScale has more Challenges than cert-manager processes at a time, while the VIPs move,
// the service restarts and its proxy process is killed. `make rehearsal REHEARSAL=--scale=300`
// requests more Certificates.
func TestScale(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	programs := must1(cluster.Build(run))(t)
	s := &rehearsal.Scale{
		Rehearsal:    rehearsal.Rehearsal{Binary: binary, Programs: programs},
		Certificates: 80, Twice: 5,
	}
	runSteps(t, s)
}
