// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestRenewalAttempts: failed attempts that the service observed, and the attempts that
// are left.
func TestRenewalAttempts(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	at := netip.MustParseAddrPort("192.0.2.5:6443")
	presents := func(name string, left time.Duration) []prober.CertificateResult {
		return []prober.CertificateResult{{
			CertificateRequest: protocol.CertificateRequest{Addr: at, Name: name},
			Certificate: &protocol.Certificate{
				Issuer: "YE1", Serial: "1f", NotBefore: now.Add(left - 160*time.Hour),
				NotAfter: now.Add(left), CoversName: true,
			},
		}}
	}
	observed := func(serial string, left time.Duration) []report.Certificate {
		return []report.Certificate{{
			Address: at.String(), Name: "api.lab.test", Serial: serial, NotAfter: now.Add(left).UTC(),
			FailedRenewals: 2, FirstFailure: now.Add(-2 * time.Hour), LastFailure: now.Add(-time.Hour),
		}}
	}
	const failed = "failed renewal attempts: 2, with cert-manager's defaults, further attempts before the " +
		"expiry: at most 5"
	for name, tt := range map[string]struct {
		all      []prober.CertificateResult
		observed []report.Certificate
		want     string // the finding with its message, or the text without a finding
	}{
		"not due": {presents("api.lab.test", 60*time.Hour), nil, `for api.lab.test: issued by "YE1", until 2027-01-17`},
		"due": {
			presents("api.lab.test", 50*time.Hour), nil,
			`for api.lab.test: issued by "YE1", until 2027-01-17; its renewal is due, with cert-manager's defaults, further attempts before the expiry: at most 7`,
		},
		"without SNI": {presents("", 50*time.Hour), nil, `for clients without SNI: issued by "YE1", until 2027-01-17`},
		"failed": {
			presents("api.lab.test", 50*time.Hour), observed("1f", 50*time.Hour),
			`renewal-attempt-failed: The certificate that 192.0.2.5:6443 presents for api.lab.test (issued by "YE1") was not renewed by an attempt at 2027-01-15T07:00:00Z. It expires on 2027-01-17T10:00:00Z, in 2d; ` + failed,
		},
		"failed before the renewal is due": {
			presents("api.lab.test", 60*time.Hour), observed("1f", 60*time.Hour),
			`renewal-attempt-failed: The certificate that 192.0.2.5:6443 presents for api.lab.test (issued by "YE1") was not renewed by an attempt at 2027-01-15T07:00:00Z. It expires on 2027-01-17T20:00:00Z, in 2d; ` + failed,
		},
		"failed, and less than a quarter left": {
			presents("api.lab.test", 38*time.Hour), observed("1f", 38*time.Hour),
			`renewal-attempt-failed: The certificate that 192.0.2.5:6443 presents for api.lab.test (issued by "YE1") was not renewed by an attempt at 2027-01-15T07:00:00Z. It expires on 2027-01-16T22:00:00Z, in 38h; ` + failed,
		},
		"failed, and less than a day left": {
			presents("api.lab.test", 23*time.Hour), observed("1f", 23*time.Hour),
			`certificate-expiry-urgent: The certificate that 192.0.2.5:6443 presents for api.lab.test (issued by "YE1") expires on 2027-01-16T07:00:00Z, in 23h. ` +
				`Less than a tenth of its lifetime, or less than a day, is left; failed renewal attempts: 2, with cert-manager's defaults, further attempts before the expiry: at most 4`,
		},
		"of an earlier certificate": {
			presents("api.lab.test", 60*time.Hour), observed("1e", 60*time.Hour),
			`for api.lab.test: issued by "YE1", until 2027-01-17`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Check(tt.all, nil, "", tt.observed, now)
			got := r.Text
			for _, f := range r.Findings {
				got = string(f.ID) + ": " + f.Message
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnreachableAPIServer: the holder of a VIP must have an API server behind it.
func TestUnreachableAPIServer(t *testing.T) {
	t.Parallel()
	vip, other := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("192.0.2.11")
	refused := errors.New("connection refused")
	at := func(addr netip.Addr, name string, err error) prober.CertificateResult {
		request := protocol.CertificateRequest{Addr: netip.AddrPortFrom(addr, prober.APIPort), Name: name}
		return prober.CertificateResult{CertificateRequest: request, Err: err}
	}
	for name, tt := range map[string]struct {
		held []netip.Addr
		all  []prober.CertificateResult
		want int
	}{
		"refused here": {[]netip.Addr{vip}, []prober.CertificateResult{
			at(vip, "a", refused), at(vip, "", refused),
			at(other, "", refused),
		}, 1},
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
				Issuer: "Lab CA", Serial: serial, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour * 30),
				CoversName: true, Names: names,
			},
		}
	}
	const replaces = "192.0.2.5:6443 presents for api-int.lab.test the certificate of api.lab.test (issued by \"Lab " +
		"CA\"). The nodes use that name, and trust only the cluster's own CA for it"
	const valid = "The certificate that 192.0.2.5:6443 presents for api.lab.test (issued by \"Lab CA\") is also valid " +
		"for api-int.lab.test. The nodes use that name, and trust only the cluster's own CA for it"
	for name, tt := range map[string]struct {
		internal string
		all      []prober.CertificateResult
		want     []string
	}{
		"certificates of their own": {internal, []prober.CertificateResult{
			at(first, api, "1", api),
			at(first, internal, "2", internal), at(first, "", "3"),
		}, nil},
		"the same for no name": {internal, []prober.CertificateResult{
			at(first, api, "1", api),
			at(first, internal, "2", internal), at(first, "", "2"),
		}, nil},
		"the same for both": {internal, []prober.CertificateResult{
			at(first, api, "1", api),
			at(first, internal, "1", api),
		}, []string{replaces}},
		"the same, valid for both": {internal, []prober.CertificateResult{
			at(first, api, "1", api, internal),
			at(first, internal, "1", api, internal),
		}, []string{replaces}},
		"the same at two addresses": {
			internal,
			[]prober.CertificateResult{
				at(first, api, "1", api), at(first, internal, "1", api), at(second, api, "1", api),
				at(second, internal, "1", api),
			},
			[]string{strings.Replace(replaces, "192.0.2.5:6443", "192.0.2.5:6443 (also [2001:db8::5]:6443)", 1)},
		},
		"at another address": {
			internal,
			[]prober.CertificateResult{at(first, api, "1", api), at(second, internal, "1", api)},
			nil,
		},
		"valid for both": {internal, []prober.CertificateResult{
			at(first, api, "1", api, internal),
			at(first, internal, "2", internal),
		}, []string{valid}},
		"two names": {
			internal,
			[]prober.CertificateResult{
				at(first, api, "1", api, internal), at(first, "api.other.test", "1", api, internal),
				at(first, internal, "2", internal),
			},
			[]string{valid},
		},
		"valid for that of another cluster": {
			internal,
			[]prober.CertificateResult{at(first, api, "1", api, "api-int.other.test"), at(first, internal, "2", internal)},
			nil,
		},
		"nodes use no internal name": {"", []prober.CertificateResult{at(first, api, "1", api, internal)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range Check(tt.all, nil, tt.internal, nil, now).Findings {
				got = append(got, f.Message)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
