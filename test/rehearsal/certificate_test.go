// SPDX-License-Identifier: Apache-2.0

package rehearsal_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	cmacme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal"
	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// records is where the output of `oc http01 certificate` is kept, and what oc printed for it: the tests of
// pkg/cluster/chain have such objects.
var records = flag.String("records", "", "folder for the calls of oc by oc http01 certificate (default none)")

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
		fmt.Fprintf(&status, "\"debug --quiet node/%s\") %s status --status-socket %s -o json ;;\n", n.Name, binary,
			n.StatusSocket())
	}
	pod := s.lab.Pods[0]
	script := fmt.Sprintf(`#!/bin/sh
call() {
	case "$1 $2 $3" in
	"get nodes "*) echo '{"kind": "List", "items": [%s]}' ;;
	%s*) HOME=%s nsenter --net=/run/netns/%s %s --kubeconfig=%s "$@" ;;
	esac
}
if [ -z "$RECORDS" ]; then
	call "$@"
	exit
fi
printf '%%s\n' "$@" >"$RECORDS/$$.args"
call "$@" >"$RECORDS/$$.out"
code=$?
cat "$RECORDS/$$.out"
exit $code
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
			dir := f.recordsFolder()
			cmd.Env = append(os.Environ(), "PATH="+f.pluginPath+":"+os.Getenv("PATH"), "RECORDS="+dir)
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
			if dir == "" {
				return nil
			}
			return os.WriteFile(filepath.Join(dir, "output.txt"), text, 0o600)
		}))
	f.t.Logf("oc http01 certificate %s\n%s", f.host, out)
}

// recordsFolder returns a new folder in records; empty without records. Each attempt of expectChain has one. Only the
// last one has an output.txt.
func (f *failure) recordsFolder() string {
	f.t.Helper()
	if *records == "" {
		return ""
	}
	parent := filepath.Join(*records, f.name)
	must(f.t, os.MkdirAll(parent, 0o700))
	return must1(os.MkdirTemp(parent, time.Now().Format("150405-")))(f.t)
}

// denied has a request that cert-manager may not approve, and that an approver denies in the words of
// approver-policy.
func denied(f *failure) {
	permit := f.refuseApproval()
	f.createIssuer(f.t, f.name, nil)
	f.resolve(f.lab.API)
	f.create(f.name)
	f.expectChain(3, "- Certificate openshift-config/denied: issuing", "! CertificateRequest denied-1: not approved",
		"[request-not-approved]")
	const patch = `{"status":{"conditions":[{"type":"Denied","status":"True","reason":"policy.cert-manager.io",` +
		`"message":"No policy approved this request: [apps-only: spec.allowed.dnsNames]"}]}}`
	requests := f.cluster.CertManager.CertmanagerV1().CertificateRequests(cluster.ConfigNamespace)
	must1(requests.Patch(run, f.name+"-1", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"))(f.t)
	f.expectChain(3, "✗ Certificate openshift-config/denied: failed", "✗ CertificateRequest denied-1: denied",
		"[request-denied]", "No policy approved this", "oc get certificaterequest denied-1 -n openshift-config -o yaml",
		"oc delete certificaterequest denied-1 -n openshift-config")
	permit()
	// cert-manager deletes it too, but meanwhile it can fail the new issuance with it: it waits for the deletion of
	// failed requests, not of denied ones (pkg/controller/certificates/issuing).
	must(f.t, requests.Delete(run, f.name+"-1", metav1.DeleteOptions{}))
	f.renew()
	f.awaitReady()
}

// refuseApproval has the API servers reject the approval of requests for the issuer of the case. So does
// cert-manager's webhook, which does not run, for an issuer that is not among the chart's approveSignerNames.
func (f *failure) refuseApproval() (permit func()) {
	f.t.Helper()
	admission := f.cluster.Kube.AdmissionregistrationV1()
	rule := admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Update},
		Rule: admissionv1.Rule{
			APIGroups: []string{"cert-manager.io"}, APIVersions: []string{"v1"},
			Resources: []string{"certificaterequests/status"},
		},
	}}
	meta := metav1.ObjectMeta{Name: f.name}
	must1(admission.ValidatingAdmissionPolicies().Create(run, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule}},
			Validations: []admissionv1.Validation{{Expression: `object.spec.issuerRef.name != "` + f.name +
				`" || !object.status.conditions.exists(c, c.type == "Approved")`}},
		},
	}, metav1.CreateOptions{}))(f.t)
	bindings := admission.ValidatingAdmissionPolicyBindings()
	must1(bindings.Create(run, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: f.name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}, metav1.CreateOptions{}))(f.t)
	f.awaitApproval(false)
	return func() {
		f.t.Helper()
		must(f.t, bindings.Delete(run, f.name, metav1.DeleteOptions{}))
		f.awaitApproval(true)
	}
}

// awaitApproval waits until the API server of cert-manager accepts or rejects the approval of a request for the
// issuer of the case.
func (f *failure) awaitApproval(accepted bool) {
	f.t.Helper()
	requests := f.cluster.CertManager.CertmanagerV1().CertificateRequests(cluster.ConfigNamespace)
	probe := must1(requests.Create(run, &cmapi.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: f.name + "-probe-"},
		Spec: cmapi.CertificateRequestSpec{
			Request: []byte("none"), IssuerRef: cmmeta.IssuerReference{Name: f.name, Kind: cmapi.ClusterIssuerKind},
		},
	}, metav1.CreateOptions{}))(f.t)
	const approval = `{"status":{"conditions":[{"type":"Approved","status":"True"}]}}`
	must(f.t, lab.Eventually(run, "the policy for approvals", func(ctx context.Context) error {
		_, err := requests.Patch(ctx, probe.Name, types.MergePatchType, []byte(approval),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		if (err == nil) != accepted {
			return errors.Join(fmt.Errorf("accepts approvals: %v", !accepted), err)
		}
		return nil
	}))
	must(f.t, requests.Delete(run, probe.Name, metav1.DeleteOptions{}))
}

// expired has a named certificate that expires, because the name resolves to another host since its issuance. No
// other case runs: an entry of the APIServer affects the report about each name.
func expired(f *failure) {
	f.createIssuer(f.t, f.name, func(i *cmacme.ACMEIssuer) { i.EnableDurationFeature = true })
	f.resolve(f.lab.API)
	spec := rehearsal.CertificateSpec(f.name, f.name, f.host)
	// cert-manager's webhook, which does not run, requires an hour.
	spec.Duration = &metav1.Duration{Duration: 2 * time.Minute}
	must1(f.cluster.CertManager.CertmanagerV1().Certificates(cluster.ConfigNamespace).Create(run,
		&cmapi.Certificate{ObjectMeta: metav1.ObjectMeta{Name: f.name}, Spec: spec}, metav1.CreateOptions{}))(f.t)
	f.awaitReady()
	f.createAPIServer()
	f.expectChain(0, "namedCertificates[0]", "✓ Secret openshift-config/expired: valid", "✓ Certificate ", ": ready")
	f.resolve(lab.Pair{V4: f.lab.ControlPlane[1].Addresses.V4})
	f.expectChain(3, "✗ Secret openshift-config/expired: expired", "- Certificate openshift-config/expired: issuing",
		"! Challenge ", "[named-certificate-expired]", "[challenge-pending]")
	f.resolve(f.lab.API)
	f.awaitReady()
	f.expectChain(0, "✓ Secret openshift-config/expired: valid", "✓ Certificate openshift-config/expired: ready")
}

// createAPIServer creates OpenShift's APIServer with the certificate of the case.
func (f *failure) createAPIServer() {
	f.t.Helper()
	dir := must1(cluster.Module(run, ".", "github.com/openshift/api"))(f.t)
	must(f.t, f.cluster.CreateCRDs(run,
		filepath.Join(dir, "config/v1/zz_generated.crd-manifests/*_apiservers-Default.crd.yaml")))
	servers := must1(dynamic.NewForConfig(f.cluster.Config))(f.t).Resource(schema.GroupVersionResource{
		Group: "config.openshift.io", Version: "v1", Resource: "apiservers",
	})
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "config.openshift.io/v1", "kind": "APIServer", "metadata": map[string]any{"name": "cluster"},
		"spec": map[string]any{"servingCerts": map[string]any{"namedCertificates": []any{map[string]any{
			"names": []any{f.host}, "servingCertificate": map[string]any{"name": f.name},
		}}}},
	}}
	must(f.t, lab.Eventually(run, "the resource apiservers", func(ctx context.Context) error {
		_, err := servers.Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		return err
	}))
}
