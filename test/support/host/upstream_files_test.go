// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	bundlePath = "/etc/http01-proxyd/ca-bundle.crt"
	proxyEnv   = "/etc/mco/proxy.env"
	proxyCA    = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt"
)

// awaitCondition waits for a condition's reason and a part of its message.
func (s *service) awaitCondition(kind, reason, part string) {
	s.t.Helper()
	s.awaitMessage(kind, reason, func(message string) bool { return strings.Contains(message, part) })
}

// awaitMessage waits for a condition's reason and a matching message.
func (s *service) awaitMessage(kind, reason string, is func(message string) bool) {
	s.t.Helper()
	s.until(kind+" "+reason, func(ctx context.Context) error {
		report, err := s.report(ctx)
		if got := report.ConditionOf(kind); err == nil && (got.Reason != reason || !is(got.Message)) {
			err = fmt.Errorf("it is %+v", got)
		}
		return err
	})
}

// TestUpstreamFiles tests which files of the upstream route the unit's user can read and
// store, with the modes that OpenShift gives them.
func TestUpstreamFiles(t *testing.T) {
	const trusted, egress, secret = "UpstreamTrustReady", "EgressProxyReady", "s3cr3t-of-the-proxy"
	s := newService(t, true)
	authority, err := lab.NewAuthority("Booted CA")
	s.requireNoError(err)
	for _, path := range []string{bundlePath, proxyEnv, proxyCA} {
		t.Cleanup(func() { s.requireNoError(s.node.RemoveFile(path)) })
	}
	s.requireNoError(s.node.WriteFile(bundlePath, string(authority.Certificate()), 0o644))
	env := "HTTP_PROXY=http://admin:" + secret + "@192.0.2.99:3128\nNO_PROXY=.example.com\n"
	s.requireNoError(s.node.WriteFile(proxyEnv, env, 0o644))
	s.requireNoError(s.node.WriteFile(proxyCA, string(authority.Certificate()), 0o600)) // of machine-config-operator
	s.systemctl("start", unit)
	s.awaitStatus("Serving: ")
	s.awaitCondition(trusted, "Loaded", "(1 CA) is in use")
	s.awaitCondition(egress, "Direct", "192.0.2.99:3128")
	s.challenge()

	// An invalid bundle changes nothing, also after a restart.
	s.requireNoError(s.node.WriteFile(bundlePath, "-----BEGIN CERTIFICATE-----\nTm90", 0o644))
	s.awaitCondition(trusted, "Rejected", bundlePath)
	s.systemctl("restart", unit)
	s.awaitStatus("Serving: ")
	s.awaitCondition(trusted, "Rejected", "last good")
	s.challenge()
	s.requireNoError(s.node.RemoveFile(bundlePath))
	s.awaitCondition(trusted, "SystemTrust", "")

	// Both files can have the credentials: config.yaml can, and is kept too.
	kept := s.run("find", "/var/lib/private/http01-proxyd", "-name", "*accepted*", "-printf", "%f %m\n")
	for _, file := range []string{"accepted-egress-proxy.json", "last-accepted.yaml"} {
		if !strings.Contains(kept, file+" 600") {
			t.Errorf("%s lacks mode 600:\n%s", file, kept)
		}
	}
	shown := s.systemctl("status", unit) +
		s.run(binaryPath, "status", "-o", "json") + s.run(binaryPath, "status", "-o", "prometheus") +
		s.run("journalctl", "--no-pager", "-o", "json", "-u", unit)
	if !strings.Contains(shown, "192.0.2.99") || strings.Contains(shown, secret) {
		t.Errorf("output has the proxy: %v, and its password: %v",
			strings.Contains(shown, "192.0.2.99"), strings.Contains(shown, secret))
	}
}
