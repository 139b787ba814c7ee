// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
)

// outsideCA is the file with the root of the lab's CA on the host that replaces the reader's
// workstation.
const outsideCA = "/root/lab-ca.pem"

// workstation has the reader's commands that contact the API run on a host that does not
// hold the VIP, and trust the lab's CA as the reader's machine trusts Let's Encrypt.
const workstation = `curl() { outside curl --cacert ` + outsideCA + ` "$@"; }
openssl() { if [ "$1" = s_client ]; then outside openssl "$@"; else command openssl "$@"; fi; }
export -f curl openssl
`

// newTutorial returns an administrator of a cluster with the objects and controllers of the
// tutorial. prepare returns further objects of the cluster.
func newTutorial(t *testing.T, prepare func(*admin) []map[string]any) *admin {
	t.Helper()
	a := newAdmin(t)
	c := newControllers(t, a.testbed)
	objects := must1(oc.NewObjects(must1(tutorialCRDs(t.Context()))(t), c.reconcile))(t)
	for _, o := range append([]map[string]any{
		{"apiVersion": "config.openshift.io/v1", "kind": "DNS", "metadata": map[string]any{"name": "cluster"}, "spec": map[string]any{"baseDomain": a.Lab.Domain}},
		{"apiVersion": "config.openshift.io/v1", "kind": "APIServer", "metadata": map[string]any{"name": "cluster"}, "spec": map[string]any{"audit": map[string]any{"profile": "Default"}}},
		{
			"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": map[string]any{"name": "kube-apiserver"},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Progressing", "status": "False"}}},
		},
	}, prepare(a)...) {
		objects.Put(&unstructured.Unstructured{Object: o})
	}
	must(t, c.present(objects))
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"lab": {Server: "https://api." + a.Lab.Domain + ":6443", CertificateAuthorityData: c.ca.Certificate()}},
		Contexts:       map[string]*clientcmdapi.Context{"admin": {Cluster: "lab"}},
		CurrentContext: "admin",
	}, kubeconfig))
	outside := a.ControlPlane[2]
	must(t, outside.WriteFile(outsideCA, must1(a.Lab.Internet.Root(t.Context()))(t), 0o644))
	t.Cleanup(func() { must(t, outside.RemoveFile(outsideCA)) })
	a.shell = newShell(t, map[string]oc.Handler{
		"oc": func(ctx context.Context, dir string, args ...string) (string, error) {
			if len(args) > 0 && args[0] == "config" {
				return kubeconfigCommand(kubeconfig, dir, args[1:])
			}
			return objects.Run(ctx, a.cluster.Run, dir, args...)
		},
		"outside": func(ctx context.Context, _ string, args ...string) (string, error) {
			return outside.Run(ctx, args[0], args[1:]...)
		},
	})
	a.env = append(a.env, "IMAGE="+a.images[first], "KUBECONFIG="+kubeconfig)
	return a
}

// tutorialBlock runs one block of a section of the tutorial on the reader's workstation.
func (a *admin) tutorialBlock(section string, i, of int) string {
	a.t.Helper()
	return must1(a.workstationBlock(tutorialDocument, section, i, of))(a.t)
}

// workstationBlock runs one block of a document on the reader's workstation.
func (a *admin) workstationBlock(document, section string, i, of int) (string, error) {
	a.t.Helper()
	text := openDocument(a.t, document, installMark).block(a.t, section, i, of)
	return a.run(a.t.Context(), workstation+text)
}

// TestTutorial runs the commands of the tutorial. The API presents a certificate of the
// lab's CA for its name, and another one after the renewal; the challenges of both went
// through the service.
func TestTutorial(t *testing.T) {
	// A renewal that fails, of the second revision.
	a := newTutorial(t, func(*admin) []map[string]any {
		return []map[string]any{failedRequest("api-certificate", 2, time.Now().Add(-time.Hour))}
	})
	name := "api." + a.Lab.Domain
	must(t, a.Lab.Internet.SetName(t.Context(), name, a.Lab.API))
	if got := strings.TrimSpace(a.tutorialBlock("1. Set the name", 0, 1)); got != name {
		t.Fatalf("the name is %q, want %q", got, name)
	}
	a.env = append(a.env, "API="+name)
	a.setRelease(first)
	a.step("tutorial: install", expect{starts: 1, changes: true}, func() { a.tutorialBlock("2. Install the service", 0, 1) })
	a.awaitRelease(first)
	a.expectOutput("3. Check the path of a challenge", 0, 1, `^HTTP/1\.1 400 Bad Request\r\n(.*\r\n)+\r\nOnly /\.well-known/acme-challenge/\* is allowed$`)
	a.tutorialBlock("4. Create the issuer", 0, 1)
	a.tutorialBlock("5. Request the certificate", 0, 3)
	a.expectOutput("5. Request the certificate", 1, 3, `challenge \S+ for "`+name+`": `)
	a.expectOutput("5. Request the certificate", 2, 3, `issuer=.*Pebble(.|\n)*notAfter=(.|\n)*DNS:`+name)
	challenges := a.challenges()

	a.write("roots.pem", must1(a.Lab.Internet.Root(t.Context()))(t))
	a.env = append(a.env, "ROOTS=roots.pem")
	must1(a.workstationBlock(beforeTheSwitch, "Kubeconfigs", 0, 1))(t)
	a.expectTrusted()
	if out := must1(a.workstationBlock(beforeTheSwitch, "At most ten named certificates", 0, 1))(t); out != "" {
		t.Errorf("the APIServer has the certificates %q before the change", out)
	}

	saved := a.tutorialBlock("6. Use it for the API", 0, 4)
	if text := a.read("apiserver.yaml"); !strings.Contains(text, "kind: APIServer") || strings.Contains(text, "namedCertificates") {
		t.Errorf("the saved APIServer is not the one before the change:\n%s\n%s", text, saved)
	}
	t.Log(a.tutorialBlock("6. Use it for the API", 1, 4))
	a.expectTrusted()
	if out := must1(a.workstationBlock(beforeTheSwitch, "At most ten named certificates", 0, 1))(t); out != "api-certificate" {
		t.Errorf("the APIServer has the certificates %q, want that of the tutorial", out)
	}
	for i := 2; i < 4; i++ {
		t.Log(a.tutorialBlock("6. Use it for the API", i, 4))
	}
	trusted := must1(clientcmd.LoadFromFile(a.variable("KUBECONFIG")))(t)
	if ca := trusted.Clusters["lab"].CertificateAuthorityData; ca != nil {
		t.Errorf("the kubeconfig still trusts %q only", ca)
	}
	before := a.expectOutput("7. Verify", 0, 1, `issuer=.*Pebble(.|\n)*notAfter=(.|\n)*serial=(\w+)\n(.|\n)*ok$`)

	a.tutorialBlock("8. Renew", 0, 3)
	after := a.expectOutput("8. Renew", 1, 3, `issuer=.*Pebble(.|\n)*serial=(\w+)\n$`)
	if serial(before) == serial(after) {
		t.Errorf("the renewed certificate has the serial of the one before: %s", serial(after))
	}
	// The service reports its status to systemd at intervals.
	must1(a.ControlPlane[0].Run(t.Context(), "timeout", "30", "sh", "-c", `until systemctl show --property=StatusText http01-proxyd | grep "challenges, last 200"; do sleep 0.1; done`))(t)
	a.expectOutput("8. Renew", 2, 3, `Status: "Serving: .* challenges, last 200 `)
	if now := a.challenges(); now <= challenges {
		t.Errorf("%d challenges after the renewal, %d before", now, challenges)
	}
	a.remove(nil)
}

// expectTrusted expects that a client with the CAs of the kubeconfig trusts the API server.
func (a *admin) expectTrusted() {
	a.t.Helper()
	kubeconfig := must1(clientcmd.LoadFromFile(a.variable("KUBECONFIG")))(a.t)
	const file = "/root/kubeconfig-ca.pem"
	outside := a.ControlPlane[2]
	must(a.t, outside.WriteFile(file, string(kubeconfig.Clusters["lab"].CertificateAuthorityData), 0o644))
	defer func() { must(a.t, outside.RemoveFile(file)) }()
	must1(outside.Run(a.t.Context(), "curl", "--silent", "--show-error", "--fail", "--cacert", file, "https://api."+a.Lab.Domain+":6443/readyz"))(a.t)
}

// expectOutput runs a block and expects its output to match an expression.
func (a *admin) expectOutput(section string, i, of int, expression string) string {
	a.t.Helper()
	out := a.tutorialBlock(section, i, of)
	if !regexp.MustCompile(expression).MatchString(out) {
		a.t.Errorf("%s, block %d: the output does not match %s:\n%s", section, i+1, expression, out)
	}
	return out
}

// challenges returns how many challenges the holder of the VIPs has forwarded.
func (a *admin) challenges() int {
	a.t.Helper()
	return must1(a.Status(a.t.Context(), a.ControlPlane[0]))(a.t).Challenges.Total
}

// variable returns a variable of the shell's environment.
func (s *shell) variable(name string) string {
	for _, line := range s.env {
		if value, found := strings.CutPrefix(line, name+"="); found {
			return value
		}
	}
	return ""
}

func serial(output string) string {
	return regexp.MustCompile(`serial=\w+`).FindString(output)
}
