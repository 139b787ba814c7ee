// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

// clusterObjects are the outputs of oc by the first kind that it is called with.
func clusterObjects() map[string]string {
	const metadata = `"metadata": {"namespace": "openshift-config", "name": "api-certificate-1",
"creationTimestamp": "2026-01-02T03:04:05Z", "ownerReferences": [{"kind": `
	list := func(items ...string) string { return `{"kind": "List", "items": [` + strings.Join(items, ",") + "]}" }
	return map[string]string{
		"infrastructures": `{"kind": "Infrastructure", "metadata": {"name": "cluster"},
"status": {"apiServerURL": "https://api.example.com:6443"}}`,
		"apiservers": `{"kind": "APIServer", "metadata": {"name": "cluster"}, "spec": {"servingCerts": {}}}`,
		"certificates": list(`{"kind": "Certificate", "metadata": {"namespace": "openshift-config", "name": "api-certificate",
"creationTimestamp": "2026-01-02T03:04:05Z"}, "spec": {"dnsNames": ["api.example.com"], "secretName": "api-certificate",
"issuerRef": {"kind": "ClusterIssuer", "name": "letsencrypt"}}, "status": {"renewalTime": "2026-03-02T03:04:05Z",
"conditions": [{"type": "Issuing", "status": "True", "message": "it is \u001b[31missued"}]}}`,
			`{"kind": "ClusterIssuer", "metadata": {"name": "letsencrypt"}, "spec": {"acme": {"server": "https://ca.example.com"}},
"status": {"conditions": [{"type": "Ready", "status": "True"}]}}`),
		"certificaterequests": list(`{"kind": "CertificateRequest", ` + metadata + `"Certificate", "name": "api-certificate"}]},
"status": {"conditions": [{"type": "Denied", "status": "True", "message": "No policy approved this request"}]}}`),
		"secrets": "",
	}
}

// installCluster installs an oc that prints the objects of a cluster too.
func installCluster(t *testing.T, outputs map[string]string) {
	t.Helper()
	installOC(t, outputs)
	dir, _, _ := strings.Cut(os.Getenv("PATH"), ":")
	for kind, output := range clusterObjects() {
		must(t, os.WriteFile(filepath.Join(dir, kind), []byte(output), 0o600))
	}
}

// TestCertificate: the tree of a cluster, the exit codes, and the errors.
func TestCertificate(t *testing.T) {
	serving := statusOf("Serving", "Held")
	installCluster(t, map[string]string{"master0": serving})
	got := runLine(t, "", "certificate")
	want := strings.Join([]string{
		"Result:         ✗ 1 problem\nName:           api.example.com\n",
		"Next renewal:   openshift-config/api-certificate: 2026-03-02 03:04 UTC, ",
		"\n- APIServer cluster: no named certificate: ", "\n- Certificate openshift-config/api-certificate: issuing, ",
		": it is  [31missued\n",
		"  - Secret api-certificate: missing\n", "  ✓ ClusterIssuer letsencrypt: ready: https://ca.example.com\n",
		"  ✗ CertificateRequest api-certificate-1: denied, ", "\n- Node master0: Serving: holds 192.0.2.5\n",
		"✗ [request-denied] The CertificateRequest api-certificate-1 of openshift-config was denied: No policy",
		"\n  oc get certificaterequest api-certificate-1 -n openshift-config -o yaml\n",
	}, "*")
	if !inOrder(got.out, want) {
		t.Errorf("want %s\ngot %s", want, got.out)
	}
	if got.code != cli.Unhealthy || strings.Contains(got.out, "\x1b") {
		t.Errorf("%+v", got)
	}
	dir, _, _ := strings.Cut(os.Getenv("PATH"), ":")
	must(t, os.WriteFile(filepath.Join(dir, "master0"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "certificaterequests"), []byte(`{"kind": "List"}`), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "certificates"), []byte(`{"kind": "List", "items": [{"kind": "Certificate",
"spec": {"dnsNames": ["api.example.com"], "issuerRef": {"group": "other.io"}},
"status": {"conditions": [{"type": "Ready", "status": "True"}]}}]}`), 0o600))
	if got := runLine(t, "", "certificate"); got.code != cli.Unknown || !strings.Contains(got.out, "Not examined:   - master0: no JSON") {
		t.Errorf("a node does not report: %+v", got)
	}
	must(t, os.Remove(filepath.Join(dir, "certificates")))
	if got := runLine(t, "", "certificate"); got.code != cli.Failure ||
		!strings.Contains(got.err, "oc http01 certificate: cannot read the Certificates: ") {
		t.Errorf("no Certificates: %+v", got)
	}
}

// TestCheckReadsObjects: check reports what is wrong with the objects, unless only some checks run.
func TestCheckReadsObjects(t *testing.T) {
	installCluster(t, map[string]string{"master0": checkedOK})
	if got := runLine(t, "", "check"); got.code != cli.Unhealthy || !inOrder(got.out, "✗ [request-denied] *\n  oc get certificaterequest ") {
		t.Errorf("%+v", got)
	}
	if got := runLine(t, "", "check", "--only", "dns"); got.code != cli.OK || strings.Contains(got.out, "request-denied") {
		t.Errorf("--only: %+v", got)
	}
	if got := runLine(t, "", "check", "--name", "other.example.com"); got.code != cli.OK {
		t.Errorf("a name without a Certificate: %+v", got)
	}
	dir, _, _ := strings.Cut(os.Getenv("PATH"), ":")
	certificates := filepath.Join(dir, "certificates")
	must(t, os.Remove(certificates))
	if got := runLine(t, "", "check"); got.code != cli.OK || strings.Contains(got.out, "Not checked") {
		t.Errorf("a cluster without cert-manager: %+v", got)
	}
	must(t, os.Mkdir(certificates, 0o700)) // oc prints another error
	for _, format := range []string{"text", "html", "json"} {
		if got := runLine(t, "", "check", "-o", format); got.code != cli.OK || !strings.Contains(got.out, "cannot read the Certificates: ") {
			t.Errorf("%s: unreadable Certificates: %+v", format, got)
		}
	}
}
