// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// apiServerURL is the file that OpenShift writes on every node; check reads the name of the
// API from it.
const apiServerURL = "/etc/kubernetes/apiserver-url.env"

// blockedPort is a firewall of the node that drops the redirected connections.
const blockedPort = `table inet node_firewall {
	chain input { type filter hook input priority 1; tcp dport 8888 drop; }
}
`

// expiredObjects returns the objects of a cluster whose API certificate has expired two days
// ago, and was not renewed since the last attempt failed.
func expiredObjects(a *admin) []map[string]any {
	name := "api." + a.Lab.Domain
	ca := must1(lab.NewAuthority("lab-expired-ca"))(a.t)
	end := time.Now().Add(-48 * time.Hour)
	failed := time.Now().Add(-20 * time.Hour) // of 32 h that cert-manager waits
	identity := must1(ca.Issue(lab.ServerCertificate{Names: []string{name}, NotBefore: end.Add(-90 * 24 * time.Hour), NotAfter: end}))(a.t)
	metadata := map[string]any{"name": "api-certificate", "namespace": configNamespace}
	return []map[string]any{
		{"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer", "metadata": map[string]any{"name": "letsencrypt"}, "spec": map[string]any{"selfSigned": map[string]any{}}},
		{
			"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": metadata,
			"spec": map[string]any{
				"secretName": "api-certificate", "dnsNames": []any{name},
				"issuerRef": map[string]any{"name": "letsencrypt", "kind": "ClusterIssuer"},
			},
			"status": map[string]any{
				"revision": int64(1), "failedIssuanceAttempts": int64(6), "lastFailureTime": failed.UTC().Format(time.RFC3339),
				"conditions": []any{
					map[string]any{"type": "Ready", "status": "False", "reason": "Expired"},
					map[string]any{"type": "Issuing", "status": "False", "reason": "Failed"},
				},
			},
		},
		failedRequest("api-certificate", 2, failed),
		{
			"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata,
			"data": map[string]any{
				"tls.crt": base64.StdEncoding.EncodeToString(identity.Chain),
				"tls.key": base64.StdEncoding.EncodeToString(identity.Key),
			},
		},
		{
			"apiVersion": "config.openshift.io/v1", "kind": "APIServer", "metadata": map[string]any{"name": "cluster"},
			"spec": map[string]any{"servingCerts": map[string]any{"namedCertificates": []any{
				map[string]any{"names": []any{name}, "servingCertificate": map[string]any{"name": "api-certificate"}},
			}}},
		},
	}
}

// TestCertificateExpired runs the commands of the runbook, from a client's error to a
// verified new certificate. The cause is a firewall of the node.
func TestCertificateExpired(t *testing.T) {
	a := newTutorial(t, expiredObjects)
	name, holder := "api."+a.Lab.Domain, a.ControlPlane[0]
	must(t, a.Lab.Internet.SetName(t.Context(), name, a.Lab.API))
	must(t, holder.WriteFile(apiServerURL, "KUBERNETES_SERVICE_HOST='api-int."+a.Lab.Domain+"'\nKUBERNETES_SERVICE_PORT='6443'\n", 0o644))
	t.Cleanup(func() { must(t, holder.RemoveFile(apiServerURL)) })
	a.env = append(a.env, "API="+name)
	a.setRelease(first)
	a.step("install", expect{starts: 1, changes: true}, func() { a.tutorialBlock("2. Install the service", 0, 1) })
	a.awaitRelease(first)
	must1(holder.Run(t.Context(), "nft", blockedPort))(t)

	expired := must1(a.workstationBlock(expiredRunbook, "1. Confirm it", 0, 1))(t)
	if !strings.Contains(expired, "lab-expired-ca") {
		t.Errorf("the API does not present the expired certificate:\n%s", expired)
	}
	// check exits with 3 while it has findings.
	found, err := a.workstationBlock(expiredRunbook, "3. Find and fix the cause", 0, 1)
	for _, want := range []string{"node_firewall", expiredRunbook, "expired on"} {
		if err == nil || !strings.Contains(found, want) {
			t.Errorf("check does not print %q (%v):\n%s", want, err, found)
		}
	}
	const failedReason = "oc get certificaterequest api-certificate-2 --namespace=openshift-config -o jsonpath='{.status.conditions[0].reason}'"
	if got := must1(a.run(t.Context(), failedReason))(t); got != "Failed" {
		t.Errorf("the CertificateRequest is %q, want Failed", got)
	}
	if out, err := a.workstationBlock(expiredRunbook, "4. Renew", 0, 1); err == nil {
		t.Errorf("a certificate is issued although the firewall drops challenges:\n%s", out)
	}
	// The attempt is a new one, which does not take the result of the failed request.
	if out, err := a.run(t.Context(), failedReason); err == nil {
		t.Errorf("the failed CertificateRequest is still there: %s", out)
	}
	t.Log(found)
	must1(holder.Run(t.Context(), "nft", "delete", "table", "inet", "node_firewall"))(t)
	must1(a.workstationBlock(expiredRunbook, "4. Renew", 0, 1))(t)
	verified, _ := a.workstationBlock(expiredRunbook, "5. Verify", 0, 1)
	t.Log(verified)
	for _, unwanted := range []string{"lab-expired-ca", "expired on", "node_firewall"} {
		if strings.Contains(verified, unwanted) {
			t.Errorf("the verification prints %q:\n%s", unwanted, verified)
		}
	}
	for _, want := range []string{"Pebble", "✓ certificate"} {
		if !strings.Contains(verified, want) {
			t.Errorf("the verification does not print %q:\n%s", want, verified)
		}
	}
	a.remove(nil)
}
