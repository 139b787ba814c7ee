// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// readmeDocument also has commands for a reader who follows no other document.
const readmeDocument = "README.md"

// expectHealth runs README's commands about the health of the cluster: the plugin of oc shows the holder of
// each VIP, and gets the result of check from all nodes.
func (a *admin) expectHealth() {
	a.t.Helper()
	type node struct {
		Name     string
		Reported bool
	}
	var want []node
	for _, m := range a.hosts.ControlPlane {
		want = append(want, node{m.Name, true})
	}
	health := must1(a.documented(readmeDocument, "Check health", 0))(a.t)
	for _, text := range []string{"Serving", "Standby", a.hosts.Lab.API.V4.String()} {
		if !strings.Contains(health, text) {
			a.t.Errorf("the status of the cluster has no %s:\n%s", text, health)
		}
	}
	var status struct {
		VIPs  []struct{ Holders []string }
		Nodes []node
	}
	must(a.t, json.Unmarshal([]byte(must1(a.run("oc http01 status -o json"))(a.t)), &status))
	for _, v := range status.VIPs {
		if !slices.Equal(v.Holders, []string{want[0].Name}) {
			a.t.Errorf("a VIP is held by %q", v.Holders)
		}
	}
	if len(status.VIPs) == 0 || !slices.Equal(want, status.Nodes) {
		a.t.Errorf("status: %+v", status)
	}
	// The hosts run no API server, and checks that require one cannot end.
	must(a.t, lab.Eventually(a.t.Context(), "check to report only the missing API server", func(context.Context) error {
		out, err := a.documented(readmeDocument, "Not working?", 0)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 4 || !strings.Contains(out, "(3 of 3 nodes reported)") ||
			!strings.Contains(out, "[api-server-unreachable]") {
			return fmt.Errorf("want exit code 4, not %s\n%s", fmt.Sprint(err), out)
		}
		return nil
	}))
}

// expectGathered runs the script of the image for `oc adm must-gather`. kubectl has no command adm.
func (a *admin) expectGathered() {
	a.t.Helper()
	folder := a.t.TempDir()
	must1(a.run(`"$REPOSITORY/build/must-gather/gather" ` + folder))(a.t)
	const machineConfigs = "cluster-scoped-resources/machineconfiguration.openshift.io/"
	want := map[string][]string{
		"http01-proxyd/status.json":                {`"kind": "ClusterStatus"`, a.hosts.Lab.API.V4.String()},
		"http01-proxyd/check.json":                 {`"kind": "ClusterCheck"`, "(3 of 3 nodes reported)"},
		"http01-proxyd/trace.json":                 {`"kind": "ClusterTrace"`},
		machineConfigs + "machineconfigpools.yaml": {"name: master\n"},
		machineConfigs + "machineconfigs/98-master-http01-proxyd.yaml": {
			"source: REMOVED\n", "path: /usr/local/bin/http01-proxyd-install\n", "name: http01-proxyd.service\n",
		},
		"cluster-scoped-resources/operator.openshift.io/machineconfigurations.yaml": {"nodeDisruptionPolicy:"},
		"errors.txt": {"-u http01-proxyd: exit code 1: ", "\"certificates\""},
	}
	for _, m := range a.hosts.ControlPlane {
		want["nodes/"+m.Name+"/http01-proxyd.txt"] = []string{
			"\ntable inet http01-proxyd", "### ip rule\n", "http01-proxyd.service - ",
		}
	}
	for name, texts := range want {
		got, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
		must(a.t, err)
		for _, text := range texts {
			if !strings.Contains(string(got), text) {
				a.t.Errorf("%s: no %q in\n%s", name, text, got)
			}
		}
		if strings.Contains(string(got), "last-applied-configuration") || strings.Contains(string(got), "source: data:") {
			a.t.Errorf("%s contains the files of the MachineConfigs:\n%s", name, got)
		}
	}
}
