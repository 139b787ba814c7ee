// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/registry"
)

const (
	policyFile = "/etc/containers/policy.json"
	authfile   = "/var/lib/kubelet/config.json"
)

// replaceFile replaces a file of the host until undo. An empty content removes the file.
func (n *node) replaceFile(path, content string) (undo func()) {
	n.t.Helper()
	original := must1(n.ReadFile(path))(n.t)
	mode := strings.TrimSpace(n.runScript("stat --format=%a " + path))
	must(n.t, n.RemoveFile(path))
	if content != "" {
		must(n.t, n.WriteFile(path, content, 0o600))
	}
	return func() {
		must(n.t, n.WriteFile(path, original, 0o600))
		must1(n.Run(context.Background(), "chmod", mode, path))(n.t)
	}
}

// TestPullCauses injects each cause of a failed pull; TestImageSignature has the ones of signatures. The status of the
// installer has the cause and its remediation, and the installed release continues.
func TestPullCauses(t *testing.T) {
	n := newServingNode(t)
	before := n.starts()
	image := n.images[second]
	nothing := func() {}
	for _, tt := range []struct {
		name   string
		image  string
		inject func() (undo func())
		want   []string
	}{
		{"policy", image, func() func() {
			// allowedRegistries of image.config.openshift.io has another registry.
			return n.replaceFile(policyFile,
				`{"default": [{"type": "reject"}], "transports": {"docker": {"quay.io": [{"type": "insecureAcceptAnything"}]}}}`)
		}, []string{"policy.json of this host rejects the registry", "allowedRegistries"}},
		{"blocked", image, func() func() {
			// What the machine-config-operator writes for blockedRegistries.
			const file = "/etc/containers/registries.conf.d/99-test.conf"
			must(t, n.WriteFile(file, fmt.Sprintf("[[registry]]\nprefix = \"\"\nlocation = %q\nblocked = true\n",
				n.Registry.Name), 0o644))
			return func() { must(t, n.RemoveFile(file)) }
		}, []string{"registries.conf of this host blocks the registry", "blockedRegistries"}},
		{"credentials", image, func() func() {
			return n.replaceFile(authfile, `{"auths": {"`+n.Registry.Name+`": {"auth": "bm9kZXM6d3Jvbmc="}}}`)
		}, []string{"rejects the credentials in " + authfile}},
		{"no credentials", image, func() func() { return n.replaceFile(authfile, "") }, []string{"rejects the credentials"}},
		{"no permission", image, func() func() {
			must(t, n.Registry.Down(t.Context(), registry.Denied))
			return func() { must(t, n.Registry.Up(context.Background())) }
		}, []string{"rejects the credentials"}},
		{
			"CA", image, func() func() { return n.replaceFile(n.Registry.TrustPath(), "") },
			[]string{"the certificate of the registry is not trusted", "additionalTrustedCA"},
		},
		{"proxy", image, func() func() {
			must(t, n.WriteFile(proxyEnvironment, "HTTPS_PROXY=http://127.0.0.1:1\n", 0o644))
			return func() { must(t, n.RemoveFile("/etc/mco")) }
		}, []string{"the egress proxy does not connect", proxyEnvironment}},
		{
			"DNS", strings.Replace(image, n.Registry.Name, "absent."+n.Registry.Name, 1), func() func() { return nothing },
			[]string{"DNS does not resolve the registry"},
		},
		{
			"no such image", image[:len(image)-8] + "00000000", func() func() { return nothing },
			[]string{"the registry does not have the image"},
		},
		{"podman is missing", image, func() func() {
			n.runScript("mv /usr/bin/podman /usr/bin/podman.away")
			return func() { must1(n.Run(context.Background(), "mv", "/usr/bin/podman.away", "/usr/bin/podman"))(t) }
		}, []string{"podman does not work on this host (exit code 127)"}},
		{"podman is not executable", image, func() func() {
			n.runScript("chmod a-x /usr/bin/podman")
			return func() { must1(n.Run(context.Background(), "chmod", "a+x", "/usr/bin/podman"))(t) }
		}, []string{"podman does not work on this host (exit code 126)"}},
		{"podman's configuration", image, func() func() {
			return n.replaceFile("/etc/containers/storage.conf", "[storage\n")
		}, []string{"podman does not work on this host (exit code 1)", "podman info"}},
		{"outage", image, func() func() {
			must(t, n.Registry.Down(t.Context(), registry.Refused))
			return func() { must(t, n.Registry.Up(context.Background())) }
		}, []string{"no connection, a timeout, or another cause"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Cleanup(n.dropIn(installer, "[Service]\nEnvironment=HTTP01_PROXYD_IMAGE="+tt.image+"\n"))
			t.Cleanup(tt.inject())
			n.runScript("systemctl restart " + installer)
			n.awaitInstaller(t, n.Host, append(tt.want, "cannot pull "+tt.image+": ", "status=1/FAILURE")...)
		})
	}
	must(t, n.checkRelease(t.Context(), n.Host, first))
	if got := n.starts(); got != before {
		t.Errorf("the service started %d times meanwhile", got-before)
	}
}
