// SPDX-License-Identifier: Apache-2.0

//go:build mco

package openshift

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
)

// Findings of preflight.
const (
	poolPaused  = "pool-paused"
	poolLayered = "pool-layered"
	overlaps    = "machineconfig-overlaps"
)

// TestOtherProcedures runs procedures that take too long for each change of this repository.
func TestOtherProcedures(t *testing.T) {
	a := newAdmin(t)
	a.install()
	a.failingAction()
	a.removeEntriesBy(mergePatch)
	a.procedure("downgrade after a merge patch", expect{predicted: []string{entriesMissing}}, func() {
		a.must(lifeGuide, "Upgrade and downgrade", 0, "NEW_IMAGE="+shared.images[first])
	})
	a.awaitServing(first)

	a.configure("mode: \"\"\n")
	a.procedure("disable", expect{lost: true}, func() { a.must(lifeGuide, "Change the configuration", 0) })
	must(t, a.hosts.Each(t.Context(), func(ctx context.Context, _ int, m *host.Host) error {
		_, err := a.hosts.AwaitState(ctx, m, "Disabled")
		return err
	}))
	a.configure(configuration(9889))
	a.procedure("enable", expect{lost: true}, func() { a.must(lifeGuide, "Change the configuration", 0) })
	a.awaitPort(9889)
	a.otherOwner()
	a.pausedPool()
	a.remove()
}

// otherConfig is a MachineConfig of somebody else that contains our configuration file.
const otherConfig = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 99-master-somebody
  labels: {machineconfiguration.openshift.io/role: master}
spec:
  config:
    ignition: {version: 3.4.0}
    storage:
      files:
      - path: /etc/http01-proxyd/config.yaml
        mode: 0644
        overwrite: true
        contents: {source: "data:,mode%3A%20CustomDeployment%0AcustomDeployment%3A%20%7BinternalPort%3A%209777%7D%0A"}
`

// otherOwner adds a MachineConfig that overrides our configuration, and removes it.
func (a *admin) otherOwner() {
	a.t.Helper()
	a.procedure("another MachineConfig with our file", expect{}, func() {
		a.applyObject(otherConfig)
		must(a.t, a.AwaitRendered(a.t.Context(), "99-master-somebody", true))
	})
	a.awaitPort(9777)
	a.procedure("removal of the other MachineConfig", expect{predicted: []string{overlaps}}, func() {
		must1(a.run("oc delete machineconfig 99-master-somebody"))(a.t)
		must(a.t, a.AwaitRendered(a.t.Context(), "99-master-somebody", false))
	})
	a.awaitPort(9889)
}

// applyObject applies an object of somebody else.
func (a *admin) applyObject(text string) {
	a.t.Helper()
	must(a.t, os.WriteFile(filepath.Join(a.dir, "other.yaml"), []byte(text), 0o600))
	must1(a.run("oc apply -f other.yaml"))(a.t)
}

// pausedPool changes the configuration while the pool is paused.
func (a *admin) pausedPool() {
	a.t.Helper()
	must(a.t, a.PatchPool(a.t.Context(), `{"spec":{"paused":true}}`))
	a.awaitPreflight(poolPaused)
	a.configure(configuration(9890))
	out := must1(a.documented(lifeGuide, "Change the configuration", 0))(a.t)
	if !strings.Contains(out, "is paused: its nodes do not change") {
		a.t.Errorf("apply.sh does not report the paused pool:\n%s", out)
	}
	a.awaitPort(9889)
	a.procedure("resumption of the paused pool", expect{predicted: []string{poolPaused}}, func() {
		must(a.t, a.PatchPool(a.t.Context(), `{"spec":{"paused":false}}`))
		must1(a.documented(lifeGuide, "Change the configuration", 0))(a.t)
	})
	a.awaitPort(9890)
}

// failingAction has the action of an upgrade fail on a node: the daemon restores the files, and the service
// continues. When the cause is gone, the daemon tries again.
func (a *admin) failingAction() {
	a.t.Helper()
	const dropins = "/etc/systemd/system/" + installer + ".d/"
	ctx, m := a.t.Context(), a.hosts.ControlPlane[0]
	a.configure(configuration(9888))
	must(a.t, m.WriteFile(dropins+"fails.conf", "[Service]\nExecStartPre=false\n", 0o644))
	a.procedure("upgrade with a failing action", expect{}, func() {
		a.applyImage(shared.images[second])
		a.awaitNode(m, "Degraded", "restarting "+installer+" service failed")
		// The daemon repeats the update, and restores the files each time.
		must(a.t, lab.Within(ctx, rolloutLimit, "the previous image", func(context.Context) error {
			text, err := m.ReadFile(dropins + "10-image.conf")
			if err == nil && !strings.Contains(text, shared.images[first]) {
				err = errors.New(text)
			}
			return err
		}))
		must(a.t, m.RemoveFile(dropins+"fails.conf"))
		must1(m.Run(ctx, "systemctl", "daemon-reload"))(a.t)
	})
	a.awaitServing(second)
}

// osConfig has the cluster build the operating system image of the pool.
const osConfig = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineOSConfig
metadata: {name: master}
spec:
  machineConfigPool: {name: master}
  imageBuilder: {imageBuilderType: Job}
  renderedImagePushSecret: {name: builder}
  renderedImagePushSpec: r.example.com/os:latest
`

// TestMachineOSConfig changes a pool with a MachineOSConfig. It is the last test, because the pool keeps its
// MachineOSConfig. In 4.19, only preflight runs: no image is built, see reportBuild.
func TestMachineOSConfig(t *testing.T) {
	a := newAdmin(t)
	a.install()
	if a.programs.Line != oracle.Newest {
		a.applyObject(osConfig)
		a.awaitPreflight(poolLayered)
		return
	}
	must(t, a.setMaxUnavailable(t.Context(), len(a.hosts.ControlPlane)))
	all := len(a.hosts.ControlPlane)
	a.procedure("MachineOSConfig of the pool", expect{reboots: all, drained: all, lost: true}, func() {
		a.applyObject(osConfig)
		must(t, a.AwaitImage(t.Context()))
	})
	must(t, a.setMaxUnavailable(t.Context(), 1))
	a.configure(configuration(9888))
	a.procedure("configuration of a pool with a MachineOSConfig", expect{}, func() {
		a.must(lifeGuide, "Change the configuration", 0)
	})
	a.awaitPort(9888)
	a.remove()
}
