// SPDX-License-Identifier: Apache-2.0

package rehearsal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal"
	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// startPlugin builds oc-http01, and puts an oc into a folder: kubectl in the network of cert-manager's pod, which
// has a kubeconfig. `oc debug` runs the status command without a pod.
func (s *shared) startPlugin(kubectl, dir string) error {
	var err error
	if s.plugin, err = lab.BuildCommand(run, "oc-http01"); err != nil {
		return err
	}
	var nodes []string
	var status strings.Builder
	for _, n := range s.lab.ControlPlane {
		nodes = append(nodes, fmt.Sprintf(`{"metadata": {"name": %q}}`, n.Name))
		fmt.Fprintf(&status, "\"debug --quiet node/%s\") exec %s status --status-socket %s -o json ;;\n", n.Name, binary,
			n.StatusSocket())
	}
	pod := s.lab.Pods[0]
	script := fmt.Sprintf(`#!/bin/sh
case "$1 $2 $3" in
"get nodes "*) echo '{"kind": "List", "items": [%s]}' ;;
%s*) HOME=%s exec nsenter --net=/run/netns/%s %s --kubeconfig=%s "$@" ;;
esac
`, strings.Join(nodes, ", "), status.String(), dir, pod.Namespace, kubectl, filepath.Join(pod.Dir, "kubeconfig"))
	s.pluginPath = dir
	return os.WriteFile(filepath.Join(dir, "oc"), []byte(script), 0o755)
}

// expectChain waits until `oc http01 certificate` ends with an exit code and prints texts, and logs what it prints.
func (f *failure) expectChain(code int, texts ...string) {
	f.t.Helper()
	var out string
	must(f.t, lab.Within(run, issueLimit, fmt.Sprintf("the texts %q of oc http01 certificate", texts),
		func(ctx context.Context) error {
			cmd := exec.CommandContext(ctx, f.plugin, "certificate", f.host, "--width", "80")
			cmd.Env = append(os.Environ(), "PATH="+f.pluginPath+":"+os.Getenv("PATH"))
			var problems bytes.Buffer
			cmd.Stderr = &problems
			text, err := cmd.Output()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return err
			}
			out = string(text)
			rest := out
			for _, want := range texts {
				_, after, found := strings.Cut(rest, want)
				if !found {
					return fmt.Errorf("no %q in\n%s%s", want, out, problems.String())
				}
				rest = after
			}
			if got := cmd.ProcessState.ExitCode(); got != code {
				return fmt.Errorf("exit code %d, want %d:\n%s", got, code, out)
			}
			return nil
		}))
	f.t.Logf("oc http01 certificate %s\n%s", f.host, out)
}

// denied has a request that nobody approves: cert-manager approves those of its own issuers only. Then an approver
// denies it, in the words of approver-policy.
func denied(f *failure) {
	certificates := f.cluster.CertManager.CertmanagerV1().Certificates(cluster.ConfigNamespace)
	spec := rehearsal.CertificateSpec(f.name, "elsewhere", f.host)
	spec.IssuerRef.Group = "example.com"
	must1(certificates.Create(run, &cmapi.Certificate{ObjectMeta: metav1.ObjectMeta{Name: f.name}, Spec: spec},
		metav1.CreateOptions{}))(f.t)
	f.expectChain(3, "- Certificate openshift-config/denied: issuing", "! CertificateRequest denied-1: not approved",
		"[request-not-approved]")
	const patch = `{"status":{"conditions":[{"type":"Denied","status":"True","reason":"policy.cert-manager.io",` +
		`"message":"No policy approved this request: [apps-only: spec.allowed.dnsNames]"}]}}`
	must1(f.cluster.CertManager.CertmanagerV1().CertificateRequests(cluster.ConfigNamespace).Patch(run, f.name+"-1",
		types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"))(f.t)
	f.expectChain(3, "✗ Certificate openshift-config/denied: failed", "✗ CertificateRequest denied-1: denied",
		"[request-denied]", "No policy approved this", "oc get certificaterequest denied-1 -n openshift-config -o yaml")
}
