// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
)

// memory is a host in memory, whose units only have a state.
type memory struct {
	files   map[string]string
	modes   map[string]fs.FileMode
	enabled map[string]bool
}

func newMemory() *memory {
	return &memory{map[string]string{}, map[string]fs.FileMode{}, map[string]bool{}}
}

// Run implements mcd.Machine.
func (m *memory) Run(_ context.Context, name string, args ...string) (string, error) {
	last := args[len(args)-1]
	switch {
	case name == "stat":
		if _, exists := m.files[last]; !exists {
			return "", fmt.Errorf("stat %s: %w", last, fs.ErrNotExist)
		}
		return fmt.Sprintf("%x\n", unix.S_IFREG|uint32(m.modes[last])), nil
	case args[0] == "is-enabled" && !m.enabled[last]:
		return "disabled\n", errors.New("exit status 1")
	case args[0] == "is-enabled":
		return "enabled\n", nil
	case args[0] == "enable" || args[0] == "disable":
		for _, unit := range args[1:] {
			m.enabled[unit] = args[0] == "enable"
		}
	}
	return "", nil
}

// ReadFile implements mcd.Machine.
func (m *memory) ReadFile(name string) (string, error) {
	text, exists := m.files[name]
	if !exists {
		return "", fs.ErrNotExist
	}
	return text, nil
}

// WriteFile implements mcd.Machine.
func (m *memory) WriteFile(name, content string, mode fs.FileMode) error {
	m.files[name], m.modes[name] = content, mode
	return nil
}

// RemoveFile implements mcd.Machine.
func (m *memory) RemoveFile(name string) error {
	delete(m.files, name)
	return nil
}

// flavour returns the replay of a release.
func flavour(r oracle.Release) mcd.Flavour {
	if r == oracle.OpenShift419 {
		return mcd.OpenShift418
	}
	return mcd.OpenShift420
}

// TestReplay: the replayed daemon installs our MachineConfigs without a reboot. A plain file over a
// compressed one degrades a node before 4.20, and a file that was edited by hand degrades it with
// the next update.
func TestReplay(t *testing.T) {
	t.Parallel()
	const path = "/etc/http01-proxyd/config.yaml"
	ours := []byte(ourConfigs(t)[0])
	config, other := []byte(compressedConfig(t)), []byte(override("99-master-site", path, "other%0A"))
	policy := must1(os.ReadFile(policyFile))(t)
	eachRelease(t, func(t *testing.T, release oracle.Release, o *oracle.Operator) {
		t.Helper()
		host := newMemory()
		active := must1(o.Policies(t.Context(), policy))(t)
		d := mcd.Daemon{Machine: host, Flavour: flavour(release), Policy: mcd.Policy(active)}
		update := func(configs ...[]byte) mcd.Report {
			t.Helper()
			return d.Update(t.Context(), must1(mcd.Read(must1(o.Render(t.Context(), configs...))(t)))(t))
		}
		report := update(ours, config)
		if report.Degraded != nil || report.Rebooted || len(report.Actions) == 0 {
			t.Fatalf("the installation: %s", report)
		}
		report = update(ours, config, other)
		if broken := report.Degraded != nil; broken != (release == oracle.OpenShift419) {
			t.Fatalf("a plain file over a compressed one: %s", report)
		}
		if release == oracle.OpenShift419 {
			return
		}
		if got := host.files[path]; got != "other\n" {
			t.Errorf("the host has %q", got)
		}
		host.files[path] = "edited by hand\n"
		report = update(ours, config)
		if report.Degraded == nil || !strings.Contains(report.Degraded.Error(), "drift: "+path) || len(report.Actions) > 0 {
			t.Errorf("an update after a file was edited: %s", report)
		}
	})
}

// TestReplayWaitsForPolicy: the daemons wait until the operator has observed a policy that was
// applied just before the MachineConfigs.
func TestReplayWaitsForPolicy(t *testing.T) {
	t.Parallel()
	var nodes []oc.Node
	for _, release := range oracle.Releases() {
		nodes = append(nodes, oc.Node{
			Name: string(release), Daemon: &mcd.Daemon{Machine: newMemory(), Flavour: flavour(release)},
		})
	}
	c := must1(oc.New(t.Context(), []byte("apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\n"+
		"metadata: {name: cluster}\nspec: {managementState: Managed}\n"), nodes))(t)
	c.Rollouts()
	dir := must1(filepath.Abs(filepath.Join(repository, "machineconfigs")))(t)
	must1(c.Run(t.Context(), dir, "apply", "--server-side", "-f", "10-policy/policy.yaml"))(t)
	must1(c.Run(t.Context(), dir, "apply", "-f", "."))(t)
	rollouts := c.Rollouts()
	for _, r := range rollouts {
		if r.Report.Rebooted || r.Report.Degraded != nil {
			t.Errorf("%s: %s", r.Node, r.Report)
		}
	}
	if len(rollouts) != len(nodes) {
		t.Errorf("%d updates, want one for each of %d nodes", len(rollouts), len(nodes))
	}
}
