// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Findings of preflight.
const (
	entriesMissing = "policy-entries-missing"
	poolDegraded   = "pool-degraded"
)

const configFile = "/etc/http01-proxyd/config.yaml"

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
	a.expectHealth()
	a.expectGathered()

	a.removeEntriesBy(mergePatch)
	a.configure(configuration(9888))
	a.procedure("configuration after a merge patch of another tool", expect{predicted: []string{entriesMissing}}, func() {
		a.must(lifeGuide, "Change the configuration", 0)
	})
	a.awaitPort(9888)

	a.removeEntriesBy(replace)
	a.procedure("upgrade after another tool replaced the policy", expect{predicted: []string{entriesMissing}}, func() {
		a.must(lifeGuide, "Upgrade and downgrade", 0, "NEW_IMAGE="+shared.images[second])
	})
	a.awaitServing(second)
	a.driftBeforeUpdate()
	a.releaseTooEarly()
	a.remove()
	a.expectPolicy(false)
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

// driftBeforeUpdate edits a file of a MachineConfig by hand: the node gets no update until the file is restored.
func (a *admin) driftBeforeUpdate() {
	a.t.Helper()
	ctx, m := a.t.Context(), a.hosts.ControlPlane[1]
	original := must1(m.ReadFile(configFile))(a.t)
	must1(m.Run(ctx, "sh", "-c", "echo '# by hand' >> "+configFile))(a.t)
	a.awaitNode(m, "Degraded", configFile)
	a.awaitPreflight(poolDegraded)
	a.configure(configuration(9889))
	a.procedure("configuration of a node whose file was edited", expect{predicted: []string{poolDegraded}}, func() {
		a.applyImage(shared.images[second])
		must(a.t, a.AwaitHeldBack(ctx))
		must1(m.Input(ctx, original, "sh", "-c", "cat > "+configFile))(a.t)
	})
	a.awaitPort(9889)
}

// remove runs the documented removal, after which no file of the service is on a host.
func (a *admin) remove(predicted ...string) {
	a.t.Helper()
	a.procedure("removal", expect{predicted: predicted, lost: true}, func() {
		a.must(lifeGuide, "Remove", 0)
		a.must(lifeGuide, "Remove", 1)
	})
	must(a.t, a.hosts.Each(a.t.Context(), func(ctx context.Context, _ int, m *host.Host) error {
		return lab.Eventually(ctx, "the removal on "+m.Name, func(ctx context.Context) error {
			out, err := m.Run(ctx, "sh", "-c", "find /etc /var/usrlocal /var/lib -name '*http01-proxyd*' "+
				"-not -path '/etc/machine-config-daemon/*'; nft list tables | grep http01 || true; "+
				"systemctl list-units --all --plain --no-legend http01-proxyd.service")
			if err == nil && strings.TrimSpace(out) != "" {
				err = errors.New(out)
			}
			return err
		})
	}))
}
