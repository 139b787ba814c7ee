// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"fmt"
	"testing"
)

// entriesMissing is the finding of preflight before the installation.
const entriesMissing = "policy-entries-missing"

// configuration returns a configuration with a port of the proxy.
func configuration(port int) string {
	return fmt.Sprintf("mode: CustomDeployment\ncustomDeployment: {internalPort: %d}\n", port)
}

// TestProcedures runs the procedures of the documentation with OpenShift's own programs.
func TestProcedures(t *testing.T) {
	a := newAdmin(t)
	a.install()
	a.must(machineConfigGuide, "3. The MachineConfigs", 1)
	t.Log(a.DaemonLog(t.Context(), a.hosts.ControlPlane[0], 200))

	a.write("my.yaml", configuration(9888))
	a.procedure("configuration", expect{}, func() { a.must(lifeGuide, "Change the configuration", 0) })
	a.awaitPort(9888)

	a.procedure("upgrade", expect{}, func() {
		a.must(lifeGuide, "Upgrade and downgrade", 0, "NEW_IMAGE="+shared.images[second])
	})
	a.awaitServing(second)
}

// install runs the documented installation.
func (a *admin) install() {
	a.t.Helper()
	a.must(machineConfigGuide, "1. Render", 0)
	a.procedure("install", expect{predicted: []string{entriesMissing}, lost: true}, func() {
		a.must(machineConfigGuide, "2. The node disruption policy, first", 0)
		a.must(machineConfigGuide, "3. The MachineConfigs", 0)
	})
	a.awaitServing(first)
}
