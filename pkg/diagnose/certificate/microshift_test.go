// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/network"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	ms "github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// TestPresentedCertificate: the certificates that each client may get.
func TestPresentedCertificate(t *testing.T) {
	t.Parallel()
	name, addr := "api.edge.test", "192.0.2.9"
	for about, tt := range map[string]struct {
		name   string
		named  bool
		issuer string
		covers bool
		want   findings.ID
		level  findings.Level
	}{
		"an external name":                 {name: name, issuer: externalSigner, covers: true},
		"the same with a time":             {name: name, issuer: externalSigner + "@1700000000", covers: true},
		"an external name, by a public CA": {name: name, issuer: "Public CA", covers: true},
		"a missing name": {
			name: name, issuer: "kube-apiserver-service-network-signer",
			want: findings.MicroShiftNameMissing, level: findings.Problem,
		},
		"a missing address": {
			name: addr, issuer: "kube-apiserver-service-network-signer",
			want: findings.MicroShiftNameMissing, level: findings.Warning,
		},
		"an external name, by the service CA": {
			name: name, issuer: "kube-apiserver-service-network-signer", covers: true,
			want: findings.MicroShiftExternalClientGetsInternal, level: findings.Problem,
		},
		"an external name, by the localhost CA": {
			name: name, issuer: "kube-apiserver-localhost-signer@1", covers: true,
			want: findings.MicroShiftExternalClientGetsInternal, level: findings.Problem,
		},
		"an address, by the service CA": {
			name: addr, issuer: "kube-apiserver-service-network-signer", covers: true,
			want: findings.MicroShiftExternalClientGetsInternal, level: findings.Warning,
		},
		"a named certificate": {name: name, named: true, issuer: "Public CA", covers: true},
		"a named certificate for other names": {
			name: name, named: true, issuer: "Public CA",
			want: findings.MicroShiftNameMissing, level: findings.Problem,
		},
		"an ignored named certificate": {
			name: name, named: true, issuer: externalSigner, covers: true,
			want: findings.MicroShiftNamedCertificateIgnored, level: findings.Problem,
		},
	} {
		c := certificateClient{
			protocol.CertificateRequest{Addr: netip.MustParseAddrPort("192.0.2.9:6443"), Name: tt.name},
			tt.named,
		}
		f, ok := c.judge(&protocol.Certificate{Issuer: tt.issuer, CoversName: tt.covers})
		if f.ID != tt.want || f.Level != tt.level || ok != (tt.want != "") {
			t.Errorf("%s: %+v", about, f)
		}
	}
}

// TestCertificateClients: the clients and their addresses. Addresses are queried
// without SNI, as Go's clients do.
func TestCertificateClients(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr
	state := microshift.State{}
	state.Config = ms.Config{
		BaseDomain: "edge.test", SubjectAltNames: []string{"192.0.2.40", "198.51.100.7", "API.edge.test", "*.edge.test"},
		NamedCertificates: []ms.NamedCertificate{{Names: []string{"public.edge.test"}}, {CertPath: t.TempDir() + "/absent"}},
	}
	names, unreadable := state.ExternalNames("Edge", []string{"api.edge.test", "*.apps.edge.test"})
	all, omitted := MicroShift{
		Host: network.Host{Addresses: []address.Address{
			{IP: addr("192.0.2.9")},
			{IP: addr("2001:db8::9")},
			{IP: addr("192.0.2.40")},
		}},
		Names: names, Omitted: unreadable, NodeIPs: []netip.Addr{addr("192.0.2.9"), addr("2001:db8::9")},
	}.clients()
	var got []string
	for _, c := range all {
		text := fmt.Sprintf("%v %s", c.Addr, c.displayName())
		if c.hasNamedCertificate {
			text += " named"
		}
		got = append(got, text)
	}
	want := []string{
		"192.0.2.9:6443 public.edge.test named",
		"192.0.2.9:6443 api.edge.test",
		"192.0.2.40:6443 192.0.2.40 (without SNI)", // at itself
		"192.0.2.9:6443 198.51.100.7 (without SNI)",
		"192.0.2.9:6443 edge",
		"192.0.2.9:6443 192.0.2.9 (without SNI)",
		"[2001:db8::9]:6443 public.edge.test named",
		"[2001:db8::9]:6443 api.edge.test",
		"[2001:db8::9]:6443 edge",
		"[2001:db8::9]:6443 2001:db8::9 (without SNI)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(omitted) != 1 {
		t.Errorf("the missing certificate: %q", omitted)
	}
	if diff := cmp.Diff([]string{"public.edge.test", "api.edge.test"}, state.ChallengeNames()); diff != "" {
		t.Errorf("challenge names (-want +got):\n%s", diff)
	}
}
