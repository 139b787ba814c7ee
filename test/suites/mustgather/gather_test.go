// SPDX-License-Identifier: Apache-2.0

package mustgather_test

import (
	"encoding/base64"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Secrets that the objects and journals contain.
const (
	token      = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"
	orderToken = "kZ8v0sN2tQ7bY1mC5xW4uR9eL6jH3gFd_AaPpOoIiUy"
	thumbprint = "9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI"
	password   = "c0rrect-h0rse"
	keyLine    = "MHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04fSeQ6tF1aY"
	bearer     = "sha256~fFyEqjf1xxFMO0tbEyGRvWeNOd7QByuEgS4hyEq_A9o"
	apiToken   = "cf-0123456789abcdef"
	secretData = "c2VjcmV0LWRhdGEtb2YtYS1TZWNyZXQ="
	jwt        = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtdXN0LWdhdGhlciJ9.c2lnbmF0dXJl"
)

// config is a configuration with a password, as in a MachineConfig.
func config() string {
	text := "egressProxy:\n  httpProxy: http://admin:" + password + "@proxy.example.com:3128\n"
	return base64.StdEncoding.EncodeToString([]byte(text))
}

// planted are the secrets by what they are.
func planted() map[string]string {
	return map[string]string{
		"token": token, "token of an order": orderToken, "thumbprint": thumbprint, "password": password,
		"private key": keyLine, "bearer token": bearer, "API token": apiToken, "Secret": secretData, "JWT": jwt,
		"file in a MachineConfig": config(),
	}
}

// answers are what oc prints, by kind of objects or by command.
func answers() map[string]string {
	const key = token + "." + thumbprint
	list := func(items ...string) string {
		return "apiVersion: v1\nitems:\n" + strings.Join(items, "") + "kind: List\n"
	}
	annotation := "- metadata:\n    annotations:\n      kubectl.kubernetes.io/last-applied-configuration: |\n" +
		`        {"spec":{"solvers":[{"config":{"user":"x","apiToken":"` + apiToken + `"}}]}}` + "\n    name: kept\n"
	return map[string]string{
		"nodes.json": `{"kind": "List", "items": [{"metadata": {"name": "master0"}}, {"metadata": {"name": "master1"}}]}`,
		"none.json":  `{"kind": "List"}`,
		"check.json": `{"kind": "Check", "outcome": "ok", "checks": []}`,
		"trace.json": `{"kind": "Trace", "packets": []}`,
		"status.json": `{"apiVersion": "http01-proxyd.github.io/v1alpha1", "kind": "Status", "version": "v1.2.3", "conditions": [
{"type": "HTTP01ChallengeProxyReady", "status": "True", "reason": "Serving", "message": "m", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
"vips": [{"address": "192.0.2.5", "family": "IPv4", "state": "Held", "since": "2026-01-02T03:04:05Z"}]}`,
		"tokens":     token + " " + orderToken + "\n",
		"challenges": list(annotation, "  spec:\n    dnsName: api.example.com\n    key: "+key+"\n    token: "+token+"\n"),
		"orders": list("- status:\n    authorizations:\n    - challenges:\n      - token: " + orderToken +
			"\n        type: http-01\n"),
		"certificates":        list("- spec:\n    secretName: api-certificate\n    privateKey:\n      rotationPolicy: Always\n"),
		"certificaterequests": list("- status:\n    failureTime: kept\n"),
		"issuers":             list(annotation),
		"clusterissuers": list("- spec:\n    acme:\n      solvers:\n      - dns01:\n          webhook:\n            config:\n" +
			"              apiToken: " + apiToken + ", with a comma\n              otherToken: |-\n                " + apiToken +
			"\n                " + apiToken + "\n    privateKeySecretRef: kept-account\n"),
		"pods": list("- spec:\n    containers:\n    - args:\n      - --domain=api.example.com\n      - --token=" + token +
			"\n      - --key=" + key + "\n      env:\n      - name: API_TOKEN\n        value: " + apiToken + "\n"),
		"ingresses": list("- spec:\n    rules:\n    - http:\n        paths:\n        - path: /.well-known/acme-challenge/" + token +
			"\n"),
		"services": list("- spec:\n    type: NodePort\n"),
		"machineconfigs": "kind: MachineConfig\nmetadata:\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: |\n" +
			`      {"files":[{"contents":{"source":"data:;base64,` + config() + `"}}]}` +
			"\nspec:\n  config:\n    storage:\n      files:\n      - contents:\n          source: data:text/plain;base64," + config() + "\n        path: /etc/http01-proxyd/config.yaml\n",
		"nodes": "kind: List\n", "machineconfigpools": "kind: List\n", "machineconfigurations": "kind: List\n",
		"apiservers": "kind: List\n", "infrastructures": "kind: List\n",
		"apiservers.json":      `{"kind": "APIServer", "metadata": {"name": "cluster"}}`,
		"infrastructures.json": `{"kind": "Infrastructure", "status": {"apiServerURL": "https://api.example.com:6443"}}`,
		"secrets":              "data:\n  tls.key: " + secretData + "\n",
		"secrets.template":     "",
		"certificates.json": `{"kind": "List", "items": [{"kind": "Certificate", "metadata": {"name": "api-certificate",
"namespace": "openshift-config"}, "spec": {"dnsNames": ["api.example.com"], "secretName": "api-certificate"}}]}`,
		"networkpolicies": "kind: List\n",
		"master0": "### nft list ruleset\ntable inet http01_proxyd {\n### cat /etc/http01-proxyd/config.yaml\negressProxy:\n" +
			"  httpProxy: http://admin:" + password + "@proxy.example.com:3128\n  httpsProxy: admin:" + password +
			"@proxy.example.com:3129\n-----BEGIN EC PRIVATE KEY-----\n" + keyLine + "\n-----END EC PRIVATE KEY-----\nkept\n",
		"master1": "HTTPS_PROXY=http://admin:" + password + "/@proxy.example.com:3128\nAuthorization: Bearer " + bearer +
			"\nGITHUB_TOKEN=" + apiToken + "\nAWS_SECRET_ACCESS_KEY=" + apiToken + "\nDB_PASSPHRASE=" + password + "\n",
		"journal": "master0 http01-proxyd: challenge token " + token + " of api.example.com from 203.0.113.9, key " +
			key + "\n" +
			"master0 http01-proxyd: the file of " + orderToken + " is kept\n",
		"logs": `{"msg":"presented","url":"http://api.example.com/.well-known/acme-challenge/` + token + `","jwt":"` + jwt +
			`","password":"` + password + `\"x","level":"kept"}` + "\n" + `{"pem":"-----BEGIN PRIVATE KEY-----\n` + keyLine +
			`\n-----END PRIVATE KEY-----"}` + "\nafter the key\n",
	}
}

// gather runs the script with these answers, and returns its files.
func gather(t *testing.T, all map[string]string, env ...string) map[string]string {
	t.Helper()
	tool, err := lab.BuildCommand(t.Context(), "oc-http01")
	must(t, err)
	bin, folder := t.TempDir(), t.TempDir()
	must(t, os.Symlink(tool, filepath.Join(bin, "oc-http01")))
	script, err := os.ReadFile("testdata/oc")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(bin, "oc"), script, 0o700))
	for name, text := range all {
		must(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "../../../build/must-gather/gather", folder)
	cmd.Env = slices.Concat(os.Environ(), []string{"PATH=" + bin + ":/usr/bin:/bin"}, env)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
	files := map[string]string{}
	must(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, folder+"/")] = string(text)
		return err
	}))
	return files
}

// TestNoSecrets: everything is in the folder, except secrets and what failed. The rest of each text is kept.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	all := answers()
	all["routes.fail"] = "Unable to connect to https://admin:" + password + "@api.example.com\n"
	all["logs"] += strings.Repeat("a line of cert-manager\n", 400_000)
	files := gather(t, all)
	printed := strings.Builder{}
	for _, text := range all {
		printed.WriteString(text)
	}
	for what, secret := range planted() {
		if !strings.Contains(printed.String(), secret) {
			t.Errorf("oc does not print the %s", what)
		}
		for name, text := range files {
			if strings.Contains(text, secret) {
				t.Errorf("%s contains the %s:\n%.2000s", name, what, text)
			}
		}
	}
	for name, want := range map[string][]string{
		"version":                   {"http01-proxyd/must-gather\n", "http01 "},
		"http01-proxyd/status.json": {`"kind": "ClusterStatus"`, `"reason": "Serving"`},
		"http01-proxyd/check.json":  {`"kind": "ClusterCheck"`}, "http01-proxyd/trace.json": {`"kind": "ClusterTrace"`},
		"http01-proxyd/certificate.json":                      {`"kind": "ClusterCertificate"`},
		"host_service_logs/masters/http01-proxyd_service.log": {" of api.example.com from 203.0.113.9", "is kept\n"},
		"nodes/master0/http01-proxyd.txt": {
			"table inet http01_proxyd", "httpProxy: REMOVED@proxy.example.com:3128\n", "kept\n",
		},
		"nodes/master1/http01-proxyd.txt": {"proxy.example.com:3128\n"},
		"cluster-scoped-resources/machineconfiguration.openshift.io/machineconfigs/98-master-http01-proxyd.yaml": {
			"source: REMOVED\n        path: /etc/http01-proxyd/config.yaml",
		},
		"cluster-scoped-resources/cert-manager.io/clusterissuers.yaml":     {"apiToken: REMOVED\n", "kept-account"},
		"namespaces/openshift-config/acme.cert-manager.io/challenges.yaml": {"dnsName: api.example.com", "name: kept"},
		"namespaces/openshift-config/acme.cert-manager.io/orders.yaml":     {"- token: REMOVED\n        type: http-01"},
		"namespaces/openshift-config/cert-manager.io/certificates.yaml":    {"secretName: api-certificate", "rotationPolicy"},
		"namespaces/openshift-config/core/pods.yaml":                       {"--domain=api.example.com", "name: API_TOKEN"},
		"namespaces/openshift-config/networking.k8s.io/ingresses.yaml":     {"/.well-known/acme-challenge/REMOVED\n"},
		"namespaces/cert-manager/cert-manager.log":                         {`"msg":"presented"`, `"level":"kept"`, "after the key"},
		"errors.txt": {
			"oc get routes.route.openshift.io -o yaml -n openshift-config -l acme.cert-manager.io/http01-solver=true: exit code 1: " +
				"Unable to connect to https://REMOVED@api.example.com\n",
			`resource type "certmanagers"`, "/cert-manager.log: cut after 8388608 bytes\n",
		},
	} {
		for _, text := range want {
			if !strings.Contains(files[name], text) {
				t.Errorf("%s: no %q in\n%.2000s", name, text, files[name])
			}
		}
	}
	for name := range files {
		if strings.HasSuffix(name, ".stderr") || strings.Contains(name, "99-other") {
			t.Errorf("%s is in the folder", name)
		}
	}
}

// TestGatherLimits: a node does not answer, or no time is left. The rest is collected.
func TestGatherLimits(t *testing.T) {
	t.Parallel()
	all := answers()
	all["master1.hang"] = ""
	files := gather(t, all, "GATHER_SECONDS=8")
	if !strings.Contains(files["nodes/master0/http01-proxyd.txt"], "table inet") {
		t.Errorf("the other node:\n%s", files["nodes/master0/http01-proxyd.txt"])
	}
	for _, want := range []string{"oc debug --quiet node/master1 -- ", ": exit code 124: "} {
		if !strings.Contains(files["errors.txt"], want) {
			t.Errorf("no %q in\n%s", want, files["errors.txt"])
		}
	}
	files = gather(t, answers(), "GATHER_SECONDS=0")
	if names := len(files); names != 2 || !strings.Contains(files["errors.txt"],
		"oc http01 status -o json: not run, because the limit of 0 seconds or ") {
		t.Errorf("%d files: %q", names, files)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
