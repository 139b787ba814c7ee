// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	sources "github.com/http01-proxyd/http01-proxyd"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

// ca returns a CA's certificate in PEM, valid until ends.
func ca(t *testing.T, name string, ends time.Time) string {
	t.Helper()
	key := must1(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: name}, NotBefore: ends.Add(-48 * time.Hour),
		NotAfter: ends,
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must1(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// configMap is a ConfigMap as oc prints it.
func configMap(bundle string) *machineconfig.Input {
	text := `apiVersion: v1
data:
  ca-bundle.crt: |
` + indented(bundle) + `kind: ConfigMap
metadata:
  creationTimestamp: "2026-01-01T00:00:00Z"
  name: router-ca
  namespace: openshift-config
`
	return &machineconfig.Input{Name: "ca.yaml", Text: []byte(text)}
}

func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

// proxyObject is the cluster's Proxy as oc prints it.
func proxyObject(spec, status string) *machineconfig.Input {
	return &machineconfig.Input{Name: "proxy.yaml", Text: []byte(`apiVersion: config.openshift.io/v1
kind: Proxy
metadata:
  name: cluster
spec:
  readinessEndpoints: [http://www.example.com]
  trustedCA:
    name: user-ca-bundle
` + spec + "status:\n" + status)}
}

const proxyStatus = `  httpProxy: http://u:secret@proxy.example.com:3128
  httpsProxy: https://proxy.example.com:3129
  noProxy: .cluster.local,.svc,192.0.2.0/24
`

func given(text string) *machineconfig.Input {
	return &machineconfig.Input{Name: "my.yaml", Text: []byte(text)}
}

// TestSite: the settings of the cluster are in the files for the hosts.
func TestSite(t *testing.T) {
	t.Parallel()
	good := ca(t, "Lab CA", time.Now().Add(time.Hour))
	past := ca(t, "Old CA", time.Now().Add(-time.Hour))
	const credentials = "the URL of the proxy contains credentials, and so does the MachineConfig: without --proxy, " +
		"hosts read the same settings from /etc/mco/proxy.env"
	const unused = "hosts do not use the proxy unless the configuration sets egressProxy.upstream: auto"
	const untried = "the configuration has no egressProxy.readinessEndpoints: hosts accept the proxy without testing it"
	for name, tt := range map[string]struct {
		site           machineconfig.Site
		config, bundle string
		notes          []string
	}{
		"a bundle, and the name of the cluster": {
			machineconfig.Site{TrustedCA: configMap(good), Domain: "Cluster.example.com."},
			source(t, "butane/config.yaml") + "upstream:\n  verifyNames:\n  - '*.apps.cluster.example.com'\n", good, nil,
		},
		"a bundle, of which some does not count, and no name": {
			machineconfig.Site{TrustedCA: configMap("# a comment\n" + past + good), Config: given("# nothing\n")},
			"# nothing\n", good,
			[]string{
				`ca.yaml: ca-bundle.crt: left out: line 2: "CN=Old CA", serial 7: `,
				"the certificate of the ingress must be for the API's name, but routers usually have one for *.apps of the " +
					"cluster's domain: use --cluster-domain",
			},
		},
		"the name from hosts": {
			machineconfig.Site{Config: given(
				"# mine\nhosts: [console.example, api.cluster.example.com] # these\nupstream: {port: 8080}\n")},
			"# mine\nhosts: [console.example, api.cluster.example.com] # these\nupstream: {port: 8080, verifyNames: " +
				"['*.apps.cluster.example.com']}\n", "", nil,
		},
		"another name only": {
			machineconfig.Site{Config: given("hosts: [kube.example]\n"), Domain: "B.example."},
			"hosts: [kube.example]\nupstream:\n  verifyNames:\n  - '*.apps.b.example'\n", "",
			[]string{"hosts in my.yaml does not contain api.b.example: challenges for the API's own name get 400"},
		},
		"the API's name and another one": {
			machineconfig.Site{Config: given("hosts: [kube.example, API.b.example.]\n"), Domain: "b.example"},
			"hosts: [kube.example, API.b.example.]\nupstream:\n  verifyNames:\n  - '*.apps.b.example'\n", "", nil,
		},
		"any name": {
			machineconfig.Site{Config: given("hosts: ['*']\nupstream: {scheme: https}\n"), Domain: "b.example"},
			"hosts: ['*']\nupstream: {scheme: https, verifyNames: ['*.apps.b.example']}\n", "", nil,
		},
		"names of its own": {
			machineconfig.Site{
				Config:    given("hosts: [api.a.example]\nupstream: {verifyNames: [router.example]}\n"),
				TrustedCA: configMap(good),
			},
			"hosts: [api.a.example]\nupstream: {verifyNames: [router.example]}\n", good, nil,
		},
		"names, and a domain for none": {
			machineconfig.Site{Config: given("upstream: {verifyNames: [router.example]}\n"), Domain: "b.example"},
			"upstream: {verifyNames: [router.example]}\n", "", nil,
		},
		"the nodes' name of the API": {
			machineconfig.Site{Config: given("hosts: [API-INT.a.example]\n")},
			"hosts: [API-INT.a.example]\n", "",
			[]string{"hosts in my.yaml contains api-int.a.example, by which the nodes reach the API."},
		},
		"an empty list": {
			machineconfig.Site{Config: given("hosts: [api.a.example]\nupstream:\n  # whose?\n  verifyNames: [] # none\n")},
			"hosts: [api.a.example]\nupstream:\n  # whose?\n  verifyNames:\n  - '*.apps.a.example'\n", "", nil,
		},
		"what the cluster has accepted": {
			machineconfig.Site{Config: given("# only this\n"), Proxy: proxyObject("  httpProxy: http://other.example.com:1\n",
				proxyStatus)},
			"# With settings of proxy.yaml: change these files, and render again.\negressProxy:\n  httpProxy: " +
				"http://u:secret@proxy.example.com:3128\n  httpsProxy: https://proxy.example.com:3129\n  noProxy: " +
				".cluster.local,.svc,192.0.2.0/24\n", "",
			[]string{unused, untried, credentials},
		},
		"everything": {
			machineconfig.Site{
				Config:    given("upstream:\negressProxy:\n  upstream: auto\nhosts: [api.a.example]\n"),
				TrustedCA: configMap(good), Proxy: proxyObject("", "  httpsProxy: proxy.example.com:3128\n"),
			},
			"# With settings of proxy.yaml: change these files, and render again.\nupstream:\n  verifyNames:\n  - " +
				"'*.apps.a.example'\negressProxy:\n  upstream: auto\n  httpsProxy: proxy.example.com:3128\nhosts: [api.a.example]\n", good,
			[]string{untried},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := render(t, machineconfig.Request{Image: image, Pool: "master", Site: tt.site})[1]
			want := map[string]string{"/etc/http01-proxyd/config.yaml -rw-r--r--": tt.config}
			if tt.bundle != "" {
				want["/etc/http01-proxyd/ca-bundle.crt -rw-r--r--"] = "# CN=Lab CA\n" + tt.bundle
			}
			if diff := cmp.Diff(want, onHost(t, read(t, object).Ignition)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(object.Notes) != len(tt.notes) || !slices.EqualFunc(object.Notes, tt.notes, strings.HasPrefix) {
				t.Errorf("notes are %q", object.Notes)
			}
		})
	}
}

// TestSiteOnFCOS: an Ignition configuration contains the same settings.
func TestSiteOnFCOS(t *testing.T) {
	t.Parallel()
	bundle := ca(t, "Lab CA", time.Now().Add(time.Hour))
	binary := machineconfig.Input{Name: "b", Text: program(2, "github.com/http01-proxyd/http01-proxyd/cmd/http01-proxyd",
		"linux", "amd64")}
	o := must1(machineconfig.RenderIgnition(sources.Files, machineconfig.Site{
		TrustedCA: configMap(bundle),
		Domain:    "a.example",
	}, binary))(t)
	if !strings.Contains(string(o.Text), `"path":"/etc/http01-proxyd/ca-bundle.crt"`) {
		t.Errorf("no bundle in %.2000s", o.Text)
	}
}

// TestSiteRefused: input that a host would refuse is not rendered, and messages contain
// no secret.
func TestSiteRefused(t *testing.T) {
	t.Parallel()
	good := ca(t, "Lab CA", time.Now().Add(time.Hour))
	const configMapMend = `: give the output of "oc get configmap NAME -n NAMESPACE -o yaml" or "oc create configmap ingress-ca --from-file=ca-bundle.crt=FILE --dry-run=client -o yaml"`
	const domainMend = `not the domain of a cluster: give the parent domain of api. and apps., such as cluster.example.com: "oc get dns cluster -o jsonpath={.spec.baseDomain}" prints it`
	const noCAs = "ca.yaml: the ConfigMap has no CAs in the key ca-bundle.crt: put the CAs in PEM under that key: " +
		"openssl x509 -inform der -in FILE converts a certificate in DER"
	const noProxy = `proxy.yaml: the status has no egress proxy: leave --proxy out; if the spec has one, the cluster has not accepted it: see "oc describe clusteroperator network"`
	const proxyMend = `: give the output of "oc get proxy cluster -o yaml"`
	bundle := func(text string) machineconfig.Site {
		return machineconfig.Site{TrustedCA: &machineconfig.Input{Name: "ca.yaml", Text: []byte(text)}}
	}
	proxy := func(spec, status string) machineconfig.Site {
		return machineconfig.Site{Proxy: proxyObject(spec, status)}
	}
	for name, tt := range map[string]struct {
		site machineconfig.Site
		want string
	}{
		"no YAML": {bundle("a: [secret"), "ca.yaml: not valid YAML: line 1: did not find expected" +
			configMapMend},
		"nothing": {bundle(""), "ca.yaml: contains no object" + configMapMend},
		"two objects": {
			bundle("kind: ConfigMap\n---\nkind: ConfigMap\n"),
			"ca.yaml: a second document: keep one object or one List" + configMapMend,
		},
		"a Secret": {
			bundle("apiVersion: v1\nkind: Secret\ndata: {ca-bundle.crt: secret}\n"),
			`ca.yaml: kind "Secret" of "v1" is not accepted here: want ConfigMap` + configMapMend,
		},
		"a list": {bundle("apiVersion: v1\nkind: List\nitems: []\n"), "ca.yaml: contains 0 objects" +
			configMapMend},
		"data of another shape": {
			bundle("apiVersion: v1\nkind: ConfigMap\ndata: [secret]\n"),
			"ca.yaml: data: wrong type: array: export the object again, or correct the file",
		},
		"no data":         {bundle("apiVersion: v1\nkind: ConfigMap\n"), noCAs},
		"an empty bundle": {bundle("apiVersion: v1\nkind: ConfigMap\ndata: {ca-bundle.crt: ' '}\n"), noCAs},
		"a private key": {
			machineconfig.Site{TrustedCA: configMap("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n" +
				good)},
			"ca.yaml: ca-bundle.crt: line 1: the file contains a private key: remove it, and replace the key if others could " +
				"read the file",
		},
		"a bundle elsewhere": {
			machineconfig.Site{TrustedCA: configMap(good), Config: given("upstream: {trustedCA: /etc/other.crt}")},
			"ca.yaml: the configuration has upstream.trustedCA: /etc/other.crt: remove that key: the bundle is written to " +
				"/etc/http01-proxyd/ca-bundle.crt",
		},
		"no domain": {machineconfig.Site{Domain: "https://a.example"}, `cluster domain "https://a.example": ` +
			domainMend},
		"the API's name": {machineconfig.Site{Domain: "api.a.example"}, `cluster domain "api.a.example": ` +
			domainMend},
		"the ingress's domain": {machineconfig.Site{Domain: "Apps.a.example"}, `cluster domain "Apps.a.example": ` +
			domainMend},
		"no DNS name": {machineconfig.Site{Domain: "a_b.example"}, `cluster domain "a_b.example": ` + domainMend},
		"another object": {
			machineconfig.Site{Proxy: configMap(good)},
			`proxy.yaml: kind "ConfigMap" of "v1" is not accepted here: want Proxy` + proxyMend,
		},
		"no proxy":             {proxy("", "  noProxy: a.example\n"), noProxy},
		"a proxy not accepted": {proxy(proxyStatus, "  {}\n"), noProxy},
		"a proxy of its own": {
			machineconfig.Site{
				Config: given("egressProxy:\n  httpProxy: http://u:secret@other:1\n"),
				Proxy:  proxyObject("", proxyStatus),
			},
			"my.yaml:2:14: egressProxy.httpProxy is also set by proxy.yaml: remove one of the two",
		},
		"a file of its own": {
			machineconfig.Site{
				Config: given("egressProxy: {file: /etc/p.env}\n"),
				Proxy:  proxyObject("", "  httpProxy: proxy:1\n"),
			},
			"proxy.yaml and my.yaml: egressProxy sets both a file and a proxy URL: keep one of the two",
		},
		"a proxy of other kind": {
			proxy("", "  httpProxy: socks5://u:secret@proxy:1\n"),
			"proxy.yaml: egressProxy.httpProxy has a scheme other than http and https: specify the proxy's URL, such as " +
				"http://proxy.example.com:3128",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.site.Proxy != nil {
				tt.site.Proxy.Name = "proxy.yaml"
			}
			messages := rejection(t, sources.Files, machineconfig.Request{Image: image, Pool: "master", Site: tt.site})
			lines := make(map[string]bool)
			for line := range strings.SplitSeq(messages, "\n") {
				lines[line] = true
			}
			if !lines[tt.want] || strings.Contains(messages, "secret") || strings.Contains(messages, "c2VjcmV0") {
				t.Errorf("got %q\nwant %q", slices.Sorted(maps.Keys(lines)), tt.want)
			}
		})
	}
}

// TestLargeBundle: a bundle that hosts accept is rendered if it fits, with a note how
// to apply it. The configuration beside it remains plain text.
func TestLargeBundle(t *testing.T) {
	t.Parallel()
	certificates := func(count int) machineconfig.Request {
		var many strings.Builder
		name := make([]byte, 300) // which compression makes no smaller
		for range count {
			_, _ = rand.Read(name)
			many.WriteString(ca(t, hex.EncodeToString(name), time.Now().Add(time.Hour)))
		}
		site := machineconfig.Site{TrustedCA: configMap(many.String()), Domain: "a.example"}
		return machineconfig.Request{Image: image, Pool: "master", Site: site}
	}
	object := render(t, certificates(230))[1]
	const want = "98-master-http01-proxyd-config.yaml is too large for the annotation of client-side oc apply: use oc " +
		"apply --server-side"
	if len(object.Notes) != 1 || object.Notes[0] != want {
		t.Errorf("%d bytes, notes %q", object.Size, object.Notes)
	}
	if plain, compressed := strings.Count(string(object.Text), "compression: ''"),
		strings.Count(string(object.Text), "compression: gzip"); plain != 1 || compressed != 1 {
		t.Errorf("%d files in plain text and %d compressed, want 1 and 1", plain, compressed)
	}
	got := rejection(t, sources.Files, certificates(300))
	if !strings.HasPrefix(got, "MachineConfigs: together ") ||
		!strings.Contains(got, "at most 524288, 33.33 %, are allowed") {
		t.Error(got)
	}
}
