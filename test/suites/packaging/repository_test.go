// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"context"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
)

// Keys of gpg on the host, and the folder of the repository there.
const (
	packager   = "packages@example.com"
	stranger   = "stranger@example.net"
	repository = "/root/published/repository"
)

// publish creates the repository with the packages of releases, as documented.
func (s *testbed) publish(t *testing.T, packages ...string) {
	t.Helper()
	for _, release := range packages {
		runOnHost(t, s.edge, "cp", packageFile(release), "/root/published")
	}
	must(t, s.runDocumented(t.Context(), rpmGuide, 3,
		"DIST=/root/published", "GPG_KEY="+packager, "URL=file://"+repository))
}

// TestRepository creates a signed repository, and dnf installs, upgrades and removes the service from it.
// dnf verifies the signatures of metadata and package.
func TestRepository(t *testing.T) {
	s := useTestbed(t)
	h := s.edge
	sums := checksums(t, h)
	for _, identity := range []string{packager, stranger} {
		runOnHost(t, h, "gpg", "--batch", "--quiet", "--passphrase=", "--quick-generate-key", identity, "rsa3072", "sign")
	}
	t.Cleanup(func() {
		// The test's context has ended.
		_, err := h.Run(context.Background(), "sh", "-ec",
			"gpgconf --kill gpg-agent; dnf clean all; rm -rf /root/.gnupg /root/published /etc/yum.repos.d/http01-proxyd.repo "+
				"/var/lib/http01-proxyd /var/lib/private/http01-proxyd")
		must(t, err)
	})
	// Debian has no package that says its release as Fedora's do.
	runOnHost(t, h, "sh", "-ec",
		"mkdir -p /root/published /etc/yum.repos.d /etc/dnf/vars; echo 9 >/etc/dnf/vars/releasever")

	s.publish(t, firstInRPM)
	must(t, s.runDocumented(t.Context(), rpmGuide, 4, "URL=file://"+repository))
	awaitStatus(t, h, "NotRequired: ")
	expectBinary(t, h, sums[first])
	expectVerified(t, h)
	s.publish(t, secondInRPM)
	must(t, s.runDocumented(t.Context(), rpmGuide, 5))
	expectBinary(t, h, sums[second])
	runOnHost(t, h, "dnf", "--assumeyes", "downgrade", "http01-proxyd")
	expectBinary(t, h, sums[first])
	out := runOnHost(t, h, "sh", "-c", "rpm --checksig "+repository+"/packages/*.rpm")
	if strings.Count(out, "signatures OK") != 2 {
		t.Errorf("rpm --checksig: %s", out)
	}
	runOnHost(t, h, "dnf", "--assumeyes", "remove", "http01-proxyd")
	expectProperties(t, h, service, map[string]string{"LoadState": "not-found", "ActiveState": "inactive"})
	expectRefusals(t, h)
}

// expectRefusals holds that dnf installs nothing from a changed repository.
func expectRefusals(t *testing.T, h *host.Host) {
	t.Helper()
	sign := func(identity string) string {
		return "createrepo_c --quiet . && gpg --batch --yes --armor --local-user=" + identity + " " +
			"--detach-sign repodata/repomd.xml"
	}
	for name, tt := range map[string]struct{ change, want string }{
		"changed package":  {"for f in packages/*; do echo tampered >>$f; done", "incorrect checksum"},
		"unsigned package": {"cp ../*.rpm packages; " + sign(packager), "is not signed"},
		"package with another key": {
			"rpmsign --resign --define '_gpg_name " + stranger + "' --define '__gpg /usr/bin/gpg' packages/*.rpm; " +
				sign(packager),
			"GPG check FAILED",
		},
		"changed metadata":             {"echo '<!-- -->' >>repodata/repomd.xml", "Bad GPG signature"},
		"metadata without a signature": {"rm repodata/repomd.xml.asc", "repomd.xml.asc"},
		"metadata with another key":    {sign(stranger), "Bad GPG signature"},
	} {
		t.Run(name, func(t *testing.T) {
			runOnHost(t, h, "sh", "-ec", "cp -R "+repository+" /root/genuine; cd "+repository+"; "+tt.change)
			out, err := h.Run(t.Context(), "sh", "-c", "dnf --quiet clean all; exec dnf --assumeyes install http01-proxyd 2>&1")
			if err == nil || !strings.Contains(out+err.Error(), tt.want) {
				t.Errorf("dnf: %v, want %q in:\n%s", err, tt.want, out)
			}
			if out, err := h.Run(t.Context(), "rpm", "--query", "http01-proxyd"); err == nil {
				t.Errorf("installed: %s", out)
			}
			runOnHost(t, h, "sh", "-ec", "rm -r "+repository+"; mv /root/genuine "+repository)
		})
	}
}
