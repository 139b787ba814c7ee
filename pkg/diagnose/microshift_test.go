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
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestHandedCertificate: who may be handed what.
func TestHandedCertificate(t *testing.T) {
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
		"a name that is missing":              {name: name, issuer: string(serviceSigner), want: findings.MicroShiftNameAbsent, level: findings.Problem},
		"an address that is missing":          {name: addr, issuer: string(serviceSigner), want: findings.MicroShiftNameAbsent, level: findings.Warning},
		"a name outside, by the services' CA": {name: name, issuer: string(serviceSigner), covers: true, want: findings.MicroShiftOutsideInternal, level: findings.Problem},
		"a name outside, by localhost's CA":   {name: name, issuer: string(localhostSigner) + "@1", covers: true, want: findings.MicroShiftOutsideInternal, level: findings.Problem},
		"an address, by the services' CA":     {name: addr, issuer: string(serviceSigner), covers: true, want: findings.MicroShiftOutsideInternal, level: findings.Warning},
		"a named certificate":                 {name: name, named: true, issuer: "Public CA", covers: true},
		"a named certificate for others":      {name: name, named: true, issuer: "Public CA", want: findings.MicroShiftNameAbsent, level: findings.Problem},
		"a named certificate that is ignored": {name: name, named: true, issuer: string(externalSigner), covers: true, want: findings.MicroShiftNamedIgnored, level: findings.Problem},
		"inside":                              {name: serviceName, inside: true, issuer: string(serviceSigner), covers: true},
		"inside, not for that":                {name: serviceName, inside: true, issuer: string(serviceSigner), want: findings.MicroShiftInsideAbsent, level: findings.Problem},
		"inside, by the external CA":          {name: "10.43.0.1", inside: true, issuer: string(externalSigner), covers: true, want: findings.MicroShiftInsideExternal, level: findings.Problem},
		"inside, by localhost's CA":           {name: "10.43.0.1", inside: true, issuer: string(localhostSigner), want: findings.MicroShiftInsideExternal, level: findings.Problem},
		"inside, by the admin's CA":           {name: "10.43.0.1", inside: true, issuer: "Public CA", want: findings.MicroShiftInsideExternal, level: findings.Problem},
	} {
		c := client{prober.CertificateRequest{Addr: netip.MustParseAddrPort("192.0.2.9:6443"), Name: tt.name}, tt.inside, tt.named}
		f, is := c.judge(&prober.Certificate{Issuer: tt.issuer, CoversName: tt.covers})
		if f.ID != tt.want || f.Level != tt.level || is != (tt.want != "") {
			t.Errorf("%s: %+v", about, f)
		}
	}
}

// TestClients: who is asked for, where. Addresses are asked for without a name, which
// a client of Go's sends by itself.
func TestClients(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr
	h := &host{name: "Edge", addresses: []address.Address{{IP: addr("192.0.2.9")}, {IP: addr("2001:db8::9")}, {IP: addr("192.0.2.40")}, {IP: addr("10.44.0.0")}}}
	h.config = config.Config{Hosts: []string{"api.edge.test", "*.apps.edge.test"}}
	h.edge.Config = microshift.Config{
		BaseDomain: "edge.test", SubjectAltNames: []string{"192.0.2.40", "198.51.100.7", "API.edge.test", "*.edge.test"},
		NamedCertificates: []microshift.NamedCertificate{{Names: []string{"public.edge.test"}}, {CertPath: t.TempDir() + "/absent"}},
	}
	h.edge.computed = microshift.Computed{
		NodeIPs: []netip.Addr{addr("192.0.2.9"), addr("2001:db8::9")}, Internal: []netip.Addr{addr("10.44.0.0"), addr("fd02::1:0")}, ServiceIP: addr("10.43.0.1"),
	}
	all, unasked := h.clients()
	var got []string
	for _, c := range all {
		text := fmt.Sprintf("%v %s", c.Addr, c.asked())
		if c.inside {
			text += " inside"
		}
		if c.named {
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
	if diff := cmp.Diff([]string{"public.edge.test", "api.edge.test"}, h.edgeNames()); diff != "" {
		t.Errorf("names of challenges (-want +got):\n%s", diff)
	}
}

// TestForcedInternal: of what is given MicroShift puts nothing anywhere, the other
// family's neither, and so that is not missed.
func TestForcedInternal(t *testing.T) {
	t.Parallel()
	here := netip.MustParseAddr("127.0.0.1") // on lo, everywhere
	h := &host{addresses: []address.Address{{IP: here, Bits: 8, Link: 1}}}
	h.edge.Known = true
	h.edge.computed = microshift.Computed{Internal: []netip.Addr{here, netip.MustParseAddr("fd02::1:0")}, Forced: true}
	r := checkInternal(t.Context(), h)
	if want := "127.0.0.1: on lo, as apiServer.advertiseAddress gives it; nothing is caught of it"; r.Text != want || len(r.Findings) > 0 || r.Unseen != "" {
		t.Errorf("%+v", r)
	}
}

// TestAskServers: a silent server is asked once, however much is to be asked of it, and
// costs the others no time.
func TestAskServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each, servers, refuses = 5 * time.Second, 12, 6
		ctx, cancel := context.WithTimeout(t.Context(), remote)
		defer cancel()
		at := func(i int) netip.AddrPort {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), prober.APIPort)
		}
		var questions []prober.CertificateRequest
		for name := range 3 {
			for i := range servers {
				questions = append(questions, prober.CertificateRequest{Addr: at(i), Name: strconv.Itoa(name)})
			}
		}
		// The odd ones are silent, and one refuses the first name. The real child is a process of its own, which takes no part in this clock.
		asked := make(map[netip.AddrPort]int)
		begin := time.Now()
		answers := askServers(ctx, questions, func(_ context.Context, some []prober.CertificateRequest) []prober.CertificateResult {
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
						out[i].Certificate = &prober.Certificate{Issuer: q.Name}
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

// TestAskedTooLate: a server that has answered is not silent because the time is up.
func TestAskedTooLate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	at := netip.MustParseAddrPort("192.0.2.9:6443")
	round := 0
	answers := askServers(ctx, []prober.CertificateRequest{{Addr: at, Name: "a"}, {Addr: at, Name: "b"}},
		func(_ context.Context, some []prober.CertificateRequest) []prober.CertificateResult {
			if round++; round == 1 {
				return []prober.CertificateResult{{CertificateRequest: some[0], Certificate: &prober.Certificate{}}}
			}
			cancel()
			return []prober.CertificateResult{{CertificateRequest: some[0], Err: context.Canceled}}
		})
	if answers[0].Err != nil || !errors.Is(answers[1].Err, errLate) {
		t.Errorf("%+v", answers)
	}
}

// TestEdgeFault: what only root may read is no fault for others.
func TestEdgeFault(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edge edge
		root bool
		want findings.ID
	}{
		"not readable":        {edge: edge{Answer: microshift.Answer{Err: fs.ErrPermission}}},
		"not readable, root":  {edge: edge{Answer: microshift.Answer{Err: fs.ErrPermission}}, root: true, want: findings.MicroShiftRefused},
		"not computed":        {edge: edge{err: errors.New("overflow")}, want: findings.MicroShiftRefused},
		"removed":             {edge: edge{computed: microshift.Computed{Router: microshift.Router{Removed: true}}, reason: report.UpstreamUnreachable}, want: findings.MicroShiftNoRouter},
		"nowhere":             {edge: edge{reason: report.UpstreamUnreachable}, want: findings.MicroShiftNowhere},
		"not on this host":    {edge: edge{reason: report.NoVIPs, absent: true}, want: findings.MicroShiftNodeAbsent},
		"the internal as its": {edge: edge{reason: report.NoVIPs}, want: findings.MicroShiftNodeInternal},
	} {
		h := &host{edge: tt.edge, root: tt.root}
		h.edge.is = true
		h.vipsErr = h.edge.fault()
		f, is := h.vipsFault()
		if f.ID != tt.want || is != (tt.want != "") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
