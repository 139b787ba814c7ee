// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

// namedCertificates returns an APIServer with entries. Each one has a name and a Secret.
func namedCertificates(names ...string) string {
	var text strings.Builder
	text.WriteString("apiVersion: config.openshift.io/v1\nkind: APIServer\nmetadata: {name: cluster}\n" +
		"spec:\n  servingCerts:\n    namedCertificates:\n")
	for i, name := range names {
		fmt.Fprintf(&text, "    - names: [%s]\n      servingCertificate: {name: secret%d}\n", name, i)
	}
	return text.String()
}

// TestCertificateBadInput: a mistake is reported with the field and the remediation, and no file is written.
func TestCertificateBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var hosts, flags, ten []string
	for i := range 100 {
		name := fmt.Sprintf("n%d.example.com", i)
		hosts, flags = append(hosts, name), append(flags, "--name", name)
	}
	for i := range 10 {
		ten = append(ten, fmt.Sprintf("n%d.example.com", i))
	}
	const certificate = "apiVersion: cert-manager.io/v1\nkind: Certificate\n" +
		"metadata: {name: api-certificate, namespace: openshift-config}\n" +
		"spec: {secretName: api-certificate, dnsNames: [api.other.example.com]}\n"
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	config := file("config.yaml", "mode: DefaultDeployment\nhosts: [api.c.example.com, "+strings.Join(hosts, ", ")+"]\n")
	others := file("others.yaml", "mode: DefaultDeployment\nhosts: [kube.example.com]\n")
	eleven := file("eleven.yaml", namedCertificates(ten...))
	twice := file("twice.yaml", namedCertificates("API.c.example.com"))
	changed := file("changed.yaml", certificate)
	apiServer := []string{
		"--http01proxy", "testdata/http01proxy.yaml", "--infrastructure", "testdata/infrastructure.yaml", "--apiserver",
	}
	with := func(args ...string) []string { return append([]string{"--certificate"}, args...) }
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"wildcard":         {with("--name", "*.example.com"), cli.Failure, `--name "*.example.com": a wildcard`},
		"IPv4 address":     {with("--name", "192.0.2.1"), cli.Failure, `--name "192.0.2.1": an IP address`},
		"IPv6 address":     {with("--name", "2001:db8::1"), cli.Failure, `--name "2001:db8::1": an IP address`},
		"api-int":          {with("--name", "api-int.c.example.com"), cli.Failure, `the nodes trust only`},
		"no DNS name":      {with("--name", "kube_1"), cli.Failure, `--name "kube_1": not a DNS name`},
		"name not in host": {with("--name", "kube.example.com"), cli.Failure, "list it in hosts"},
		"101 names":        {with(append(flags, "--config", config)...), cli.Failure, "101 names: give at most 100"},
		"26 names": {
			with(slices.Concat(flags[:50], []string{"--config", config, "--profile", "tlsserver"})...), cli.Failure,
			"26 names: give at most 25",
		},
		"e-mail":           {with("--email", "ops"), cli.Failure, `--email "ops": not an e-mail address`},
		"e-mail with name": {with("--email", "Ops <ops@example.com>"), cli.Failure, "not an e-mail address"},
		"profile":          {with("--profile", "long"), cli.Failure, `--profile "long": not a profile of Let's Encrypt: give classic,`},
		"issuer":           {with("--issuer", "zerossl"), cli.Failure, `--issuer "zerossl": not a known issuer`},
		"issuer by HTTP":   {with("--issuer", "http://ca.example.com"), cli.Failure, "the https URL of an ACME directory"},
		"issuer with user": {with("--issuer", "https://me@ca.example.com"), cli.Failure, "the https URL of an ACME"},
		"no domain":        {with(), cli.Failure, "give the domain of the cluster with --cluster-domain"},
		"eleven entries": {
			with("--existing", eleven), cli.Failure,
			eleven + ": spec.servingCerts.namedCertificates: would have 11 entries: keep at most 10",
		},
		"eleven entries in --apiserver": {with(append(apiServer, eleven)...), cli.Failure, "would have 11 entries"},
		"the name twice": {
			with("--existing", twice), cli.Failure,
			"namedCertificates[0].names: the Secret secret0 already has the name API.c.example.com: remove the name there",
		},
		"another Certificate": {
			with("--existing", changed), cli.Failure,
			"spec.dnsNames: is [api.other.example.com], want [api.c.example.com]: give the same settings",
		},
		"another kind":          {with("--existing", config), cli.Failure, "give the output of"},
		"--email alone":         {[]string{"--email", "ops@example.com"}, cli.Usage, "--email requires --certificate"},
		"--issuer alone":        {[]string{"--issuer", "letsencrypt"}, cli.Usage, "--issuer requires --certificate"},
		"--profile alone":       {[]string{"--profile", "classic"}, cli.Usage, "--profile requires --certificate"},
		"--name alone":          {[]string{"--name", "kube.example.com"}, cli.Usage, "--name requires --certificate"},
		"--existing alone":      {[]string{"--existing", changed}, cli.Usage, "--existing requires --certificate"},
		"with --show":           {with("--show"), cli.Usage, "cannot be used with --show"},
		"base of rhacm":         {with("--layout", "rhacm"), cli.Usage, "requires --cluster"},
		"base of argocd":        {with("--layout", "argocd"), cli.Usage, "requires --cluster"},
		"hosts without the API": {with("--config", others), cli.Failure, "rejects challenges for api.c.example.com"},
		"profile for a URL": {
			with("--issuer", "https://acme-v02.api.letsencrypt.org/directory", "--profile", "long"), cli.Failure,
			`--profile "long": not a profile of Let's Encrypt`,
		},
		"101 names of another profile": {
			with(append(flags, "--config", config, "--issuer", "https://ca.example.com/", "--profile", "long")...),
			cli.Failure, "101 names: give at most 100",
		},
		"several clusters (base)": {with("--layout", "argocd", "--cluster", "a,b"), cli.Usage, "is for one cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "out")
			args := []string{"render"}
			if name != "no domain" {
				args = append(args, "--cluster-domain", "c.example.com")
			}
			if !strings.Contains(name, "(base)") {
				args = append(args, "--image", image)
			}
			if !strings.Contains(name, "--show") {
				args = append(args, "--output-dir", out)
			}
			got := runLine(t, "", append(args, c.args...)...)
			if got.code != c.code || !strings.Contains(got.err, c.want) {
				t.Errorf("exit code %d, want %d and %q\n%s", got.code, c.code, c.want, got.err)
			}
			if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("files are written: %v", err)
			}
		})
	}
}

// TestCertificateAgain: the rendered Certificate agrees with itself, also as the API server returns it.
func TestCertificateAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{
		"render", "--certificate", "--profile", "classic", "--image", image, "--cluster-domain", "c.example.com",
		"--output-dir", dir,
	}
	first := runLine(t, "", args...)
	again := runLine(t, "", append(args, "--existing", filepath.Join(dir, "20-certificate", "certificate.yaml"))...)
	if first.code != 0 || again.code != 0 {
		t.Errorf("exit codes %d and %d:\n%s%s", first.code, again.code, first.err, again.err)
	}
}
