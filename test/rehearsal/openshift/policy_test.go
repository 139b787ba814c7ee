// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// toolPatch is a merge patch of another tool, in the form that commatrix documents for
// its nftables MachineConfig.
const toolPatch = `spec:
  nodeDisruptionPolicy:
    files:
    - path: /etc/sysconfig/nftables.conf
      actions: [{type: Restart, restart: {serviceName: nftables.service}}]
    units:
    - name: nftables.service
      actions: [{type: DaemonReload}, {type: Reload, reload: {serviceName: nftables.service}}]
`

// Commands of another tool. Both remove our entries from the policy.
const (
	mergePatch = "oc patch machineconfiguration cluster --type=merge --patch-file=patch.yaml"
	replace    = "oc replace -f replacement.yaml"
)

// removeEntriesBy runs a command of another tool, and waits until the operator has activated the result.
// preflight then reports that our entries are missing.
func (a *admin) removeEntriesBy(command string) {
	a.t.Helper()
	for name, text := range map[string]string{
		"patch.yaml": toolPatch,
		"replacement.yaml": "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata: {name: cluster}\n" +
			toolPatch + "  managementState: Managed\n",
	} {
		must(a.t, os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o600))
	}
	must1(a.run(command))(a.t)
	must(a.t, lab.Eventually(a.t.Context(), "the active policy of another tool", func(context.Context) error {
		if found := a.preflight(); !slices.Equal(found, []string{entriesMissing}) {
			return fmt.Errorf("preflight reports %q", found)
		}
		return nil
	}))
}

// expectPolicy expects the entries of another tool in the applied policy, and whether it contains ours.
func (a *admin) expectPolicy(ours bool) {
	a.t.Helper()
	const get = `oc get machineconfiguration cluster -o jsonpath='{.spec.nodeDisruptionPolicy}'`
	policy := must1(a.run(get))(a.t)
	if !strings.Contains(policy, "/etc/sysconfig/nftables.conf") || strings.Contains(policy, "http01-proxyd") != ours {
		a.t.Errorf("our entries are not %t in the policy: %s", ours, policy)
	}
}

// releaseTooEarly expects that the script does not remove the entries while the MachineConfigs exist.
func (a *admin) releaseTooEarly() {
	a.t.Helper()
	out, err := a.documented(lifeGuide, "Remove", 1)
	if err == nil || !strings.Contains(out, "apply.sh: these MachineConfigs need the entries: "+
		"machineconfig.machineconfiguration.openshift.io/98-master-http01-proxyd machine") {
		a.t.Errorf("%v\n%s", err, out)
	}
	a.expectPolicy(true)
}
