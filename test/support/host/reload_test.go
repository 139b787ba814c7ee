// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"strings"
	"testing"
)

const (
	onPort9888 = "mode: CustomDeployment\ncustomDeployment:\n  internalPort: 9888\n"
	onPort9889 = "mode: CustomDeployment\ncustomDeployment:\n  internalPort: 9889\n"
)

func TestReloadMovesThePort(t *testing.T) {
	s := startServing(t)
	s.awaitPort(8888)
	pid := s.property("MainPID")
	s.configure(onPort9888)
	s.systemctl("reload", unit)
	s.awaitPort(9888)
	s.challenge()
	const want = "redirected to port 9888"
	if shown := s.systemctl("status", unit); !strings.Contains(shown, want) {
		t.Errorf("systemctl status lacks %q:\n%s", want, shown)
	}
	s.awaitProperties(map[string]string{"NRestarts": "0", "MainPID": pid, "ActiveState": "active"})

	// A changed file is read without a reload.
	s.configure(onPort9889)
	s.awaitPort(9889)
	s.challenge()
	s.awaitProperties(map[string]string{"NRestarts": "0", "MainPID": pid, "ActiveState": "active"})
}
