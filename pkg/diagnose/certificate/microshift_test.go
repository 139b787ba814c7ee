// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/network"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	ms "github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// TestPresentedCertificate: the certificates that each client may get.
func TestPresentedCertificate(t *testing.T) {
	t.Parallel()
	name, addr := "api.edge.test", "192.0.2.9"
	for about, tt := range map[string]struct {
		name          string
		inside, named bool
		issuer        string
		covers        bool
		want          findings.ID
		level         findings.Level
	}{
		"an external name":                      {name: name, issuer: string(externalSigner), covers: true},
		"the same with a time":                  {name: name, issuer: string(externalSigner) + "@1700000000", covers: true},
		"an external name, by a public CA":      {name: name, issuer: "Public CA", covers: true},
		"a missing name":                        {name: name, issuer: string(serviceSigner), want: findings.MicroShiftNameMissing, level: findings.Problem},
		"a missing address":                     {name: addr, issuer: string(serviceSigner), want: findings.MicroShiftNameMissing, level: findings.Warning},
		"an external name, by the service CA":   {name: name, issuer: string(serviceSigner), covers: true, want: findings.MicroShiftExternalClientGetsInternal, level: findings.Problem},
		"an external name, by the localhost CA": {name: name, issuer: string(localhostSigner) + "@1", covers: true, want: findings.MicroShiftExternalClientGetsInternal, level: findings.Problem},
		"an address, by the service CA":         {name: addr, issuer: string(serviceSigner), covers: true, want: findings.MicroShiftExternalClientGetsInternal, level: findings.Warning},
		"a named certificate":                   {name: name, named: true, issuer: "Public CA", covers: true},
		"a named certificate for other names":   {name: name, named: true, issuer: "Public CA", want: findings.MicroShiftNameMissing, level: findings.Problem},
		"an ignored named certificate":          {name: name, named: true, issuer: string(externalSigner), covers: true, want: findings.MicroShiftNamedCertificateIgnored, level: findings.Problem},
		"internal":                              {name: serviceName, inside: true, issuer: string(serviceSigner), covers: true},
		"an internal name that is missing":      {name: serviceName, inside: true, issuer: string(serviceSigner), want: findings.MicroShiftServiceNameMissing, level: findings.Problem},
		"internal, by the external CA":          {name: "10.43.0.1", inside: true, issuer: string(externalSigner), covers: true, want: findings.MicroShiftInternalClientGetsExternal, level: findings.Problem},
		"internal, by the localhost CA":         {name: "10.43.0.1", inside: true, issuer: string(localhostSigner), want: findings.MicroShiftInternalClientGetsExternal, level: findings.Problem},
		"internal, by a public CA":              {name: "10.43.0.1", inside: true, issuer: "Public CA", want: findings.MicroShiftInternalClientGetsExternal, level: findings.Problem},
	} {
		c := certificateClient{protocol.CertificateRequest{Addr: netip.MustParseAddrPort("192.0.2.9:6443"), Name: tt.name}, tt.inside, tt.named}
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
		Host:  network.Host{Addresses: []address.Address{{IP: addr("192.0.2.9")}, {IP: addr("2001:db8::9")}, {IP: addr("192.0.2.40")}, {IP: addr("10.44.0.0")}}},
		Names: names, Omitted: unreadable,
		Computed: ms.Computed{
			NodeIPs: []netip.Addr{addr("192.0.2.9"), addr("2001:db8::9")}, Internal: []netip.Addr{addr("10.44.0.0"), addr("fd02::1:0")}, ServiceIP: addr("10.43.0.1"),
		},
	}.clients()
	var got []string
	for _, c := range all {
		text := fmt.Sprintf("%v %s", c.Addr, c.displayName())
		if c.internal {
			text += " internal"
		}
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
		"10.44.0.0:6443 kubernetes.default.svc internal",
		"10.44.0.0:6443 10.43.0.1 (without SNI) internal",
		"10.43.0.1:443 10.43.0.1 (without SNI) internal",
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

// TestQueryServers: an unresponsive server is queried once, whatever the number of
// queries, and delays no others.
func TestQueryServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each, servers, refuses = 5 * time.Second, 12, 6
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		at := func(i int) netip.AddrPort {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), prober.APIPort)
		}
		var questions []protocol.CertificateRequest
		for name := range 3 {
			for i := range servers {
				questions = append(questions, protocol.CertificateRequest{Addr: at(i), Name: strconv.Itoa(name)})
			}
		}
		// The odd ones are unresponsive, and one rejects the first name. The real child
		// is a separate process and not part of this clock.
		queries := make(map[netip.AddrPort]int)
		begin := time.Now()
		answers := requestEach(ctx, questions, func(_ context.Context, some []protocol.CertificateRequest) []prober.CertificateResult {
			out := make([]prober.CertificateResult, len(some))
			var group errgroup.Group
			for i, q := range some {
				queries[q.Addr]++
				group.Go(func() error {
					out[i] = prober.CertificateResult{CertificateRequest: q}
					switch {
					case q.Addr.Addr().As4()[3]%2 == 1:
						<-time.After(each)
						out[i].Err = context.DeadlineExceeded
					case q.Addr == at(refuses) && q.Name == "0":
						out[i].Err = errors.New("unrecognized name")
					default:
						out[i].Certificate = &protocol.Certificate{Issuer: q.Name}
					}
					out[i].CheckedAt = time.Now()
					return nil
				})
			}
			_ = group.Wait()
			return out
		})
		if took := time.Since(begin); took != each {
			t.Errorf("took %v", took)
		}
		for i, p := range answers {
			silent := i%servers%2 == 1
			none := silent || i == refuses
			if p.CertificateRequest != questions[i] || (p.Err != nil) != none || !none && p.Certificate.Issuer != p.Name {
				t.Errorf("%+v", p)
			}
			if want := map[bool]int{true: 1, false: 3}[silent]; queries[p.Addr] != want {
				t.Errorf("%v got %d queries", p.Addr, queries[p.Addr])
			}
		}
	})
}

// TestQueryServersTimeout: a server that has responded is not unresponsive because the
// time is up.
func TestQueryServersTimeout(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	at := netip.MustParseAddrPort("192.0.2.9:6443")
	round := 0
	answers := requestEach(ctx, []protocol.CertificateRequest{{Addr: at, Name: "a"}, {Addr: at, Name: "b"}},
		func(_ context.Context, some []protocol.CertificateRequest) []prober.CertificateResult {
			if round++; round == 1 {
				return []prober.CertificateResult{{CertificateRequest: some[0], Certificate: &protocol.Certificate{}}}
			}
			cancel()
			return []prober.CertificateResult{{CertificateRequest: some[0], Err: context.Canceled}}
		})
	if answers[0].Err != nil || !errors.Is(answers[1].Err, errTimeUp) {
		t.Errorf("%+v", answers)
	}
}
