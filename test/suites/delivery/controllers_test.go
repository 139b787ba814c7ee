// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
	"github.com/http01-proxyd/http01-proxyd/test/support/validator"
)

// configNamespace is the namespace in which kube-apiserver-operator reads the Secrets of
// namedCertificates.
const configNamespace = "openshift-config"

// tutorialCRDs returns the CRDs of the objects that the tutorial writes.
func tutorialCRDs(ctx context.Context) ([][]byte, error) {
	var all [][]byte
	for module, files := range map[string][]string{
		"github.com/cert-manager/cert-manager": {"deploy/crds/cert-manager.io_certificates.yaml", "deploy/crds/cert-manager.io_clusterissuers.yaml"},
		"github.com/openshift/api":             {"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_apiservers-Default.crd.yaml"},
	} {
		dir, err := validator.ModuleDir(ctx, module)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(dir, f))
			if err != nil {
				return nil, fmt.Errorf("read a CRD: %w", err)
			}
			all = append(all, text)
		}
	}
	return all, nil
}

// controllers replaces cert-manager and kube-apiserver-operator. The certificates are
// real: the lab's CA validates the name through the VIP, the service and the router.
type controllers struct {
	*testbed

	servers []*lab.APIServer
	ca      *lab.Authority   // the cluster's own CA
	own     *tls.Certificate // of that CA
}

// newControllers starts an API server on each control-plane host. It presents a certificate
// of the cluster's own CA until the APIServer names another one.
func newControllers(t *testing.T, s *testbed) *controllers {
	t.Helper()
	c := &controllers{testbed: s, ca: must1(lab.NewAuthority("kube-apiserver-lb-signer"))(t)}
	now := time.Now()
	identity := must1(c.ca.Issue(lab.ServerCertificate{Names: []string{"api." + s.Lab.Domain}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}))(t)
	c.own = must1(identity.TLS())(t)
	for _, m := range s.ControlPlane {
		a := must1(lab.ServeAPI(t.Context(), m.Listen, func(string, netip.Addr) *tls.Certificate { return c.own }))(t)
		t.Cleanup(func() { must(t, a.Close()) })
		c.servers = append(c.servers, a)
	}
	return c
}

func (c *controllers) reconcile(ctx context.Context, o *oc.Objects) error {
	for _, issuer := range o.All("ClusterIssuer") {
		setStatus(issuer, map[string]any{"conditions": []any{condition("Ready")}})
	}
	for _, certificate := range o.All("Certificate") {
		if err := c.issue(ctx, o, certificate); err != nil {
			return err
		}
	}
	return c.present(o)
}

// issue obtains the certificate of a new Certificate, and of one with the condition Issuing
// (cert-manager pkg/controller/certificates/trigger and cmd/ctl renew).
func (c *controllers) issue(ctx context.Context, o *oc.Objects, certificate *unstructured.Unstructured) error {
	revision, issued, err := unstructured.NestedInt64(certificate.Object, "status", "revision")
	if err != nil {
		return fmt.Errorf("read the revision: %w", err)
	}
	requested := issuing(certificate)
	if issued && requested == nil {
		return nil
	}
	if err := replaceFailedRequest(o, certificate, revision+1, requested); err != nil {
		return err
	}
	names, _, err := unstructured.NestedStringSlice(certificate.Object, "spec", "dnsNames")
	if err != nil || len(names) != 1 {
		return fmt.Errorf("the lab issues certificates for one name, not %q: %w", names, err)
	}
	issuer, _, _ := unstructured.NestedString(certificate.Object, "spec", "issuerRef", "name")
	if o.Get("ClusterIssuer", "", issuer) == nil {
		return fmt.Errorf("there is no ClusterIssuer %s", issuer)
	}
	leaf, identity, err := c.Lab.Obtain(ctx, lab.Order{Name: names[0], SelfCheckFrom: c.Lab.Worker.Node})
	if err != nil {
		return err
	}
	secret, _, _ := unstructured.NestedString(certificate.Object, "spec", "secretName")
	o.Put(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
		"metadata": map[string]any{"name": secret, "namespace": certificate.GetNamespace()},
		"data": map[string]any{
			"tls.crt": base64.StdEncoding.EncodeToString(identity.Chain),
			"tls.key": base64.StdEncoding.EncodeToString(identity.Key),
		},
	}})
	setStatus(certificate, map[string]any{
		"conditions": []any{condition("Ready")}, "revision": revision + 1,
		"notAfter": leaf.NotAfter.UTC().Format(time.RFC3339),
	})
	return nil
}

// issuing returns the condition Issuing of a Certificate if it is true. Before the next attempt after
// a failure it is false.
func issuing(certificate *unstructured.Unstructured) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(certificate.Object, "status", "conditions")
	for _, c := range conditions {
		if one, _ := c.(map[string]any); one["type"] == "Issuing" && one["status"] == "True" {
			return one
		}
	}
	return nil
}

// failedRequest returns the failed CertificateRequest of a revision.
func failedRequest(certificate string, revision int64, failed time.Time) map[string]any {
	return map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "CertificateRequest",
		"metadata": map[string]any{"name": fmt.Sprintf("%s-%d", certificate, revision), "namespace": configNamespace},
		"status": map[string]any{
			"failureTime": failed.UTC().Format(time.RFC3339),
			"conditions":  []any{map[string]any{"type": "Ready", "status": "False", "reason": "Failed"}},
		},
	}
}

// replaceFailedRequest deletes the failed CertificateRequest of a revision if it failed before the
// condition Issuing was set. Otherwise cert-manager takes its result for the new attempt
// (pkg/controller/certificates/requestmanager, deleteCurrentFailedRequests, and issuing).
func replaceFailedRequest(o *oc.Objects, certificate *unstructured.Unstructured, revision int64, requested map[string]any) error {
	name := fmt.Sprintf("%s-%d", certificate.GetName(), revision)
	request := o.Get("CertificateRequest", certificate.GetNamespace(), name)
	if request == nil {
		return nil
	}
	failure, _, _ := unstructured.NestedString(request.Object, "status", "failureTime")
	failed, err := time.Parse(time.RFC3339, failure)
	if err != nil {
		return fmt.Errorf("read the time of the failure: %w", err)
	}
	set, _ := requested["lastTransitionTime"].(string)
	if since, err := time.Parse(time.RFC3339, set); err != nil || !failed.Before(since) {
		return fmt.Errorf("the Certificate gets the result of the failed request %s: Issuing is set at %q, and the request failed at %s", name, set, failure)
	}
	o.Delete("CertificateRequest", certificate.GetNamespace(), name)
	return nil
}

// present has the API servers present the certificates of namedCertificates, by the name
// that a client sends.
func (c *controllers) present(o *oc.Objects) error {
	entries, _, err := unstructured.NestedSlice(o.Get("APIServer", "", "cluster").Object, "spec", "servingCerts", "namedCertificates")
	if err != nil {
		return fmt.Errorf("read the APIServer: %w", err)
	}
	byName := map[string]*tls.Certificate{}
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		names, _, _ := unstructured.NestedStringSlice(entry, "names")
		secret, _, _ := unstructured.NestedString(entry, "servingCertificate", "name")
		stored := o.Get("Secret", configNamespace, secret)
		if stored == nil {
			return fmt.Errorf("the APIServer names the Secret %s, which is not in %s", secret, configNamespace)
		}
		pair, err := tls.X509KeyPair(decoded(stored, "tls.crt"), decoded(stored, "tls.key"))
		if err != nil {
			return fmt.Errorf("the Secret %s: %w", secret, err)
		}
		for _, name := range names {
			byName[name] = &pair
		}
	}
	for _, a := range c.servers {
		a.Present(func(name string, _ netip.Addr) *tls.Certificate {
			if pair := byName[name]; pair != nil {
				return pair
			}
			return c.own
		})
	}
	return nil
}

func decoded(secret *unstructured.Unstructured, name string) []byte {
	text, _, _ := unstructured.NestedString(secret.Object, "data", name)
	value, _ := base64.StdEncoding.DecodeString(text)
	return value
}

func setStatus(o *unstructured.Unstructured, status map[string]any) { o.Object["status"] = status }

func condition(name string) map[string]any {
	return map[string]any{"type": name, "status": "True"}
}

// kubeconfigCommand replaces the commands of oc that work on the kubeconfig, in the
// directory of the shell. It uses the library of oc.
func kubeconfigCommand(path, dir string, args []string) (string, error) {
	kubeconfig, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", err
	}
	raw := slices.Contains(args, "--raw")
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--raw" })
	switch {
	case len(args) == 4 && slices.Equal(args[:3], []string{"view", "--minify", "-o"}):
		if err := clientcmdapi.MinifyConfig(kubeconfig); err != nil {
			return "", err
		}
		if !raw {
			clientcmdapi.ShortenConfig(kubeconfig)
		}
		text, err := clientcmd.Write(*kubeconfig)
		if err != nil {
			return "", err
		}
		var shown map[string]any
		if err := yaml.Unmarshal(text, &shown); err != nil {
			return "", err
		}
		expression := jsonpath.New("view")
		if err := expression.Parse(strings.TrimPrefix(args[3], "jsonpath=")); err != nil {
			return "", err
		}
		var out strings.Builder
		err = expression.Execute(&out, shown)
		return out.String(), err
	case len(args) == 2 && args[0] == "unset":
		name, isCA := strings.CutSuffix(strings.TrimPrefix(args[1], "clusters."), ".certificate-authority-data")
		cluster := kubeconfig.Clusters[name]
		if !isCA || cluster == nil {
			return "", fmt.Errorf("the kubeconfig has no property %s", args[1])
		}
		cluster.CertificateAuthorityData = nil
		return "Property \"" + args[1] + "\" unset.\n", clientcmd.WriteToFile(*kubeconfig, path)
	case len(args) == 4 && args[0] == "set-cluster" && args[3] == "--embed-certs=true":
		file, isCA := strings.CutPrefix(args[2], "--certificate-authority=")
		cluster := kubeconfig.Clusters[args[1]]
		if !isCA || cluster == nil {
			return "", fmt.Errorf("the kubeconfig has no cluster %s", args[1])
		}
		if cluster.CertificateAuthorityData, err = os.ReadFile(filepath.Join(dir, file)); err != nil {
			return "", err
		}
		return "Cluster \"" + args[1] + "\" set.\n", clientcmd.WriteToFile(*kubeconfig, path)
	default:
		return "", fmt.Errorf("no document has the command oc config %s", strings.Join(args, " "))
	}
}
