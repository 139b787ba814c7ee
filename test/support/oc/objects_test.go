// SPDX-License-Identifier: Apache-2.0

package oc_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
	"github.com/http01-proxyd/http01-proxyd/test/support/validator"
)

const issuer = `apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: ca}
spec:
  acme:
    server: https://ca.example.com/directory
    privateKeySecretRef: {name: account}
    solvers:
    - http01: {ingress: {ingressClassName: openshift-default}}
`

// TestObjects holds that oc applies, patches and awaits objects of a CRD as the API server
// does, and rejects what the CRD rejects.
func TestObjects(t *testing.T) {
	t.Parallel()
	module, err := validator.ModuleDir(t.Context(), "github.com/cert-manager/cert-manager")
	must(t, err)
	crd, err := os.ReadFile(filepath.Join(module, "deploy/crds/cert-manager.io_clusterissuers.yaml"))
	must(t, err)
	objects, err := oc.NewObjects([][]byte{crd}, func(_ context.Context, o *oc.Objects) error {
		o.Get("ClusterIssuer", "", "ca").Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
		return nil
	})
	must(t, err)
	objects.Put(&unstructured.Unstructured{Object: map[string]any{"kind": "DNS", "metadata": map[string]any{"name": "cluster"}, "spec": map[string]any{"baseDomain": "example.com"}}})
	dir := t.TempDir()
	for name, text := range map[string]string{
		"issuer.yaml":  issuer,
		"unknown.yaml": strings.Replace(issuer, "server:", "server2:", 1),
		"invalid.yaml": strings.Replace(issuer, "{name: account}", "{}", 1),
		"config.yaml":  motd,
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	next := func(context.Context, string, ...string) (string, error) { return "", errors.New("next") }
	for _, tt := range []struct{ command, want string }{
		{"oc get dns cluster -o jsonpath={.spec.baseDomain}", "example.com"},
		{"oc wait clusterissuer/ca --for=condition=Ready", "next"},
		{"oc apply -f unknown.yaml", `unknown field "spec.acme.server2"`},
		{"oc apply -f invalid.yaml", "Required value"},
		{"oc apply -f config.yaml", "next"},
		{"oc apply -f issuer.yaml", "clusterissuer/ca created\n"},
		{"oc wait clusterissuer/ca --for=condition=Ready --timeout=2m", "clusterissuer/ca condition met\n"},
		{"oc wait clusterissuer/ca --for=condition=Ready=False", "timed out"},
		{"oc wait clusterissuer/ca --for=jsonpath={.metadata.name}=ca", "clusterissuer/ca condition met\n"},
		{"oc wait clusterissuer/ca --for=jsonpath={.metadata.name}=other", "timed out"},
		{`oc patch clusterissuer ca --type=merge --patch={"spec":{"acme":{"server":1}}}`, "Invalid value"},
		{`oc patch clusterissuer ca --type=merge --patch={"spec":{"acme":{"server":"https://two.example.com"}}}`, "clusterissuer/ca patched\n"},
		{"oc get clusterissuer ca -o jsonpath={.spec.acme.server}", "https://two.example.com"},
		{`oc patch clusterissuer ca --patch={}`, "no document has a patch of type strategic"},
		{"oc delete clusterissuer ca", "next"},
	} {
		out, err := objects.Run(t.Context(), next, dir, strings.Fields(tt.command)[1:]...)
		if err != nil {
			out = err.Error()
		}
		if !strings.Contains(out, tt.want) {
			t.Errorf("%s: %q, want %q", tt.command, out, tt.want)
		}
	}
}
