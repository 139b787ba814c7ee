// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestPresentedCertificate: who may be handed what.
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
		"a name outside":                      {name: name, issuer: string(externalSigner), covers: true},
		"the same with a time":                {name: name, issuer: string(externalSigner) + "@1700000000", covers: true},
		"a name outside, of the admin's CA":   {name: name, issuer: "Public CA", covers: true},
		"a name that is missing":              {name: name, issuer: string(serviceSigner), want: findings.MicroShiftNameMissing, level: findings.Problem},
		"an address that is missing":          {name: addr, issuer: string(serviceSigner), want: findings.MicroShiftNameMissing, level: findings.Warning},
		"a name outside, by the services' CA": {name: name, issuer: string(serviceSigner), covers: true, want: findings.MicroShiftExternalClientGetsInternal, level: findings.Problem},
		"a name outside, by localhost's CA":   {name: name, issuer: string(localhostSigner) + "@1", covers: true, want: findings.MicroShiftExternalClientGetsInternal, level: findings.Problem},
		"an address, by the services' CA":     {name: addr, issuer: string(serviceSigner), covers: true, want: findings.MicroShiftExternalClientGetsInternal, level: findings.Warning},
		"a named certificate":                 {name: name, named: true, issuer: "Public CA", covers: true},
		"a named certificate for others":      {name: name, named: true, issuer: "Public CA", want: findings.MicroShiftNameMissing, level: findings.Problem},
		"a named certificate that is ignored": {name: name, named: true, issuer: string(externalSigner), covers: true, want: findings.MicroShiftNamedCertificateIgnored, level: findings.Problem},
		"inside":                              {name: serviceName, inside: true, issuer: string(serviceSigner), covers: true},
		"inside, not for that":                {name: serviceName, inside: true, issuer: string(serviceSigner), want: findings.MicroShiftServiceNameMissing, level: findings.Problem},
		"inside, by the external CA":          {name: "10.43.0.1", inside: true, issuer: string(externalSigner), covers: true, want: findings.MicroShiftInternalClientGetsExternal, level: findings.Problem},
		"inside, by localhost's CA":           {name: "10.43.0.1", inside: true, issuer: string(localhostSigner), want: findings.MicroShiftInternalClientGetsExternal, level: findings.Problem},
		"inside, by the admin's CA":           {name: "10.43.0.1", inside: true, issuer: "Public CA", want: findings.MicroShiftInternalClientGetsExternal, level: findings.Problem},
	} {
		c := certificateClient{protocol.CertificateRequest{Addr: netip.MustParseAddrPort("192.0.2.9:6443"), Name: tt.name}, tt.inside, tt.named}
		f, is := c.judge(&protocol.Certificate{Issuer: tt.issuer, CoversName: tt.covers})
		if f.ID != tt.want || f.Level != tt.level || is != (tt.want != "") {
			t.Errorf("%s: %+v", about, f)
		}
	}
}

// TestCertificateClients: who is asked for, where. Addresses are asked for without a name, which
// a client of Go's sends by itself.
func TestCertificateClients(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr
	h := &host{name: "Edge", addresses: []address.Address{{IP: addr("192.0.2.9")}, {IP: addr("2001:db8::9")}, {IP: addr("192.0.2.40")}, {IP: addr("10.44.0.0")}}}
	h.config = config.Config{Hosts: []string{"api.edge.test", "*.apps.edge.test"}}
	h.microShiftState.Config = microshift.Config{
		BaseDomain: "edge.test", SubjectAltNames: []string{"192.0.2.40", "198.51.100.7", "API.edge.test", "*.edge.test"},
		NamedCertificates: []microshift.NamedCertificate{{Names: []string{"public.edge.test"}}, {CertPath: t.TempDir() + "/absent"}},
	}
	h.microShiftState.computed = microshift.Computed{
		NodeIPs: []netip.Addr{addr("192.0.2.9"), addr("2001:db8::9")}, Internal: []netip.Addr{addr("10.44.0.0"), addr("fd02::1:0")}, ServiceIP: addr("10.43.0.1"),
	}
	all, unasked := h.certificateClients()
	var got []string
	for _, c := range all {
		text := fmt.Sprintf("%v %s", c.Addr, c.displayName())
		if c.internal {
			text += " inside"
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
		"10.44.0.0:6443 kubernetes.default.svc inside",
		"10.44.0.0:6443 10.43.0.1 (without SNI) inside",
		"10.43.0.1:443 10.43.0.1 (without SNI) inside",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(unasked) != 1 {
		t.Errorf("the certificate that is not there: %q", unasked)
	}
	if diff := cmp.Diff([]string{"public.edge.test", "api.edge.test"}, h.microShiftChallengeNames()); diff != "" {
		t.Errorf("names of challenges (-want +got):\n%s", diff)
	}
}

// TestAdvertiseAddress: of what is given MicroShift puts nothing anywhere, the other
// family's neither, and so that is not missed.
func TestAdvertiseAddress(t *testing.T) {
	t.Parallel()
	here := netip.MustParseAddr("127.0.0.1") // on lo, everywhere
	h := &host{addresses: []address.Address{{IP: here, Bits: 8, Link: 1}}}
	h.microShiftState.Known = true
	h.microShiftState.computed = microshift.Computed{Internal: []netip.Addr{here, netip.MustParseAddr("fd02::1:0")}, AdvertiseAddressGiven: true}
	r := checkInternalAddress(t.Context(), h)
	if want := "127.0.0.1: on lo, as apiServer.advertiseAddress gives it; nothing is caught of it"; r.Text != want || len(r.Findings) > 0 || r.NotChecked != "" {
		t.Errorf("%+v", r)
	}
}

// TestQueryServers: a silent server is asked once, however much is to be asked of it, and
// costs the others no time.
func TestQueryServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each, servers, refuses = 5 * time.Second, 12, 6
		ctx, cancel := context.WithTimeout(t.Context(), networkTimeout)
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
		// The odd ones are silent, and one refuses the first name. The real child is a process of its own, which takes no part in this clock.
		asked := make(map[netip.AddrPort]int)
		begin := time.Now()
		answers := queryServers(ctx, questions, func(_ context.Context, some []protocol.CertificateRequest) []prober.CertificateResult {
			out := make([]prober.CertificateResult, len(some))
			var group errgroup.Group
			for i, q := range some {
				asked[q.Addr]++
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
			t.Errorf("it took %v", took)
		}
		for i, p := range answers {
			silent := i%servers%2 == 1
			none := silent || i == refuses
			if p.CertificateRequest != questions[i] || (p.Err != nil) != none || !none && p.Certificate.Issuer != p.Name {
				t.Errorf("%+v", p)
			}
			if want := map[bool]int{true: 1, false: 3}[silent]; asked[p.Addr] != want {
				t.Errorf("%v was asked %d times", p.Addr, asked[p.Addr])
			}
		}
	})
}

// TestQueryServersTimeout: a server that has answered is not silent because the time is up.
func TestQueryServersTimeout(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	at := netip.MustParseAddrPort("192.0.2.9:6443")
	round := 0
	answers := queryServers(ctx, []protocol.CertificateRequest{{Addr: at, Name: "a"}, {Addr: at, Name: "b"}},
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

// TestMicroShiftFinding: what only root may read is no fault for others.
func TestMicroShiftFinding(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edge microShiftState
		root bool
		want findings.ID
	}{
		"not readable":        {edge: microShiftState{Snapshot: microshift.Snapshot{Err: fs.ErrPermission}}},
		"not readable, root":  {edge: microShiftState{Snapshot: microshift.Snapshot{Err: fs.ErrPermission}}, root: true, want: findings.MicroShiftConfigInvalid},
		"not computed":        {edge: microShiftState{err: errors.New("overflow")}, want: findings.MicroShiftConfigInvalid},
		"removed":             {edge: microShiftState{computed: microshift.Computed{Router: microshift.Router{Removed: true}}, reason: report.UpstreamUnreachable}, want: findings.MicroShiftRouterRemoved},
		"nowhere":             {edge: microShiftState{reason: report.UpstreamUnreachable}, want: findings.MicroShiftRouterNoAddress},
		"not on this host":    {edge: microShiftState{reason: report.NoVIPs, nodeAddressMissing: true}, want: findings.MicroShiftNodeAddressMissing},
		"the internal as its": {edge: microShiftState{reason: report.NoVIPs}, want: findings.MicroShiftNodeAddressInternal},
	} {
		h := &host{microShiftState: tt.edge, privileged: tt.root}
		h.microShiftState.active = true
		h.vipsErr = h.microShiftState.vipsError()
		f, is := h.vipsFault()
		if f.ID != tt.want || is != (tt.want != "") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
