// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

func TestCertificateDates(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Unix(1_800_000_000, 0)
	for name, tt := range map[string]struct {
		life, left time.Duration
		want       findings.ID
	}{
		"90 days, a third left":   {90 * day, 30 * day, ""},
		"90 days, a quarter left": {90 * day, 23 * day, ""},
		"90 days, less":           {90 * day, 22 * day, findings.CertificateExpiresSoon},
		"90 days, a tenth left":   {90 * day, 10 * day, findings.CertificateExpiresSoon},
		"90 days, less than that": {90 * day, 8 * day, findings.CertificateExpiryUrgent},
		"45 days, less than 24 h": {45 * day, 23 * time.Hour, findings.CertificateExpiryUrgent},
		"6 days, two left":        {6 * day, 2 * day, ""},
		"6 days, 30 h left":       {6 * day, 30 * time.Hour, findings.CertificateExpiresSoon},
		"6 days, less than 24 h":  {6 * day, 23 * time.Hour, findings.CertificateExpiryUrgent},
		"expired":                 {90 * day, -time.Second, findings.CertificateExpired},
		"not yet valid":           {90 * day, 91 * day, findings.CertificateNotYetValid},
	} {
		p := presented{prober.CertificateResult{Certificate: &protocol.Certificate{NotBefore: now.Add(tt.left - tt.life), NotAfter: now.Add(tt.left)}}}
		var got findings.ID
		for _, f := range p.judgeDates(now) {
			got = f.ID
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// TestPresentedText: clients without SNI are described.
func TestPresentedText(t *testing.T) {
	t.Parallel()
	cert := &protocol.Certificate{Issuer: "lab-issuer", NotAfter: time.Unix(1_800_000_000, 0)}
	for name, want := range map[string]string{
		"":             `for clients without SNI: issued by "lab-issuer", until 2027-01-15`,
		"api.lab.test": `for api.lab.test: issued by "lab-issuer", until 2027-01-15`,
	} {
		if got := (presented{prober.CertificateResult{CertificateRequest: protocol.CertificateRequest{Name: name}, Certificate: cert}}).describe(); got != want {
			t.Errorf("%q: got %s", name, got)
		}
	}
}

// TestUnreachableAPIServer: the holder of a VIP must have an API server behind it.
func TestUnreachableAPIServer(t *testing.T) {
	t.Parallel()
	vip, other := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("192.0.2.11")
	refused := errors.New("connection refused")
	at := func(addr netip.Addr, name string, err error) prober.CertificateResult {
		return prober.CertificateResult{CertificateRequest: protocol.CertificateRequest{Addr: netip.AddrPortFrom(addr, prober.APIPort), Name: name}, Err: err}
	}
	for name, tt := range map[string]struct {
		held []netip.Addr
		all  []prober.CertificateResult
		want int
	}{
		"refused here":       {[]netip.Addr{vip}, []prober.CertificateResult{at(vip, "a", refused), at(vip, "", refused), at(other, "", refused)}, 1},
		"refused elsewhere":  {nil, []prober.CertificateResult{at(vip, "", refused), at(other, "", refused)}, 0},
		"refused for a name": {[]netip.Addr{vip}, []prober.CertificateResult{at(vip, "a", refused), at(vip, "", nil)}, 0},
		"not queried":        {[]netip.Addr{vip}, []prober.CertificateResult{at(other, "", refused)}, 0},
	} {
		findings, addrs := unreachableServers(tt.all, tt.held)
		if len(findings) != tt.want || len(addrs) != tt.want {
			t.Errorf("%s: %+v", name, findings)
		}
	}
}

// TestInternalName: no certificate of an external name may be presented for the internal
// one, or be valid for it. Names of other clusters and other servers do not matter.
func TestInternalName(t *testing.T) {
	t.Parallel()
	const api, internal = "api.lab.test", "api-int.lab.test"
	first, second := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5")
	now := time.Unix(1_800_000_000, 0)
	at := func(addr netip.Addr, name, serial string, names ...string) prober.CertificateResult {
		return prober.CertificateResult{
			CertificateRequest: protocol.CertificateRequest{Addr: netip.AddrPortFrom(addr, prober.APIPort), Name: name},
			Certificate: &protocol.Certificate{
				Issuer: "Lab CA", Serial: serial, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour * 30), CoversName: true, Names: names,
			},
		}
	}
	const replaces = "192.0.2.5:6443 presents for api-int.lab.test the certificate of api.lab.test (issued by \"Lab CA\"). The nodes reach the API by that name, and trust only the cluster's own CA for it"
	const valid = "The certificate that 192.0.2.5:6443 presents for api.lab.test (issued by \"Lab CA\") is also valid for api-int.lab.test. The nodes reach the API by that name, and trust only the cluster's own CA for it"
	for name, tt := range map[string]struct {
		internal string
		all      []prober.CertificateResult
		want     []string
	}{
		"certificates of their own": {internal, []prober.CertificateResult{at(first, api, "1", api), at(first, internal, "2", internal), at(first, "", "3")}, nil},
		"the same for no name":      {internal, []prober.CertificateResult{at(first, api, "1", api), at(first, internal, "2", internal), at(first, "", "2")}, nil},
		"the same for both":         {internal, []prober.CertificateResult{at(first, api, "1", api), at(first, internal, "1", api)}, []string{replaces}},
		"the same, valid for both":  {internal, []prober.CertificateResult{at(first, api, "1", api, internal), at(first, internal, "1", api, internal)}, []string{replaces}},
		"the same at two addresses": {
			internal,
			[]prober.CertificateResult{at(first, api, "1", api), at(first, internal, "1", api), at(second, api, "1", api), at(second, internal, "1", api)},
			[]string{replaces + " (also [2001:db8::5]:6443)"},
		},
		"at another address": {internal, []prober.CertificateResult{at(first, api, "1", api), at(second, internal, "1", api)}, nil},
		"valid for both":     {internal, []prober.CertificateResult{at(first, api, "1", api, internal), at(first, internal, "2", internal)}, []string{valid}},
		"two names": {
			internal,
			[]prober.CertificateResult{at(first, api, "1", api, internal), at(first, "api.other.test", "1", api, internal), at(first, internal, "2", internal)},
			[]string{valid},
		},
		"valid for that of another cluster": {internal, []prober.CertificateResult{at(first, api, "1", api, "api-int.other.test"), at(first, internal, "2", internal)}, nil},
		"nodes use no internal name":        {"", []prober.CertificateResult{at(first, api, "1", api, internal)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range Check(tt.all, nil, tt.internal, now).Findings {
				got = append(got, f.Message)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
