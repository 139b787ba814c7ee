// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestNameNotAllowed: a name that is not accepted is detected without a token, and the finding
// has the line that accepts it.
func TestNameNotAllowed(t *testing.T) {
	t.Parallel()
	front := protocol.FetchResult{Connected: 1, Status: 400, Body: []byte(reqhead.OnlyChallenges)}
	const (
		api, other = "api.lab.test", "other.example.com"
		apiFirst   = `hosts: ["api.lab.test", "other.example.com"]`
		otherFirst = `hosts: ["other.example.com", "api.lab.test"]`
	)
	for name, tt := range map[string]struct {
		names, accepted []string
		held            bool
		rejects         bool // the response to the challenge of --token
		want            findings.Level
		line            string
	}{
		"any name":       {names: []string{api}, held: true},
		"listed":         {names: []string{api}, accepted: []string{other, api}, held: true},
		"not listed":     {[]string{api}, []string{other}, true, false, findings.Problem, otherFirst},
		"the second one": {[]string{api, other}, []string{api}, true, false, findings.Problem, apiFirst},
		"beside an address": {
			[]string{api}, []string{"2001:db8::5"}, true, false, findings.Problem, `hosts: ["2001:db8::5", "api.lab.test"]`,
		},
		"on a standby":   {[]string{api}, []string{other}, false, false, findings.Warning, otherFirst},
		"without a name": {accepted: []string{other}, held: true},
		"by another host": {
			[]string{api, other},
			[]string{api, other},
			false, true, findings.Problem,
			apiFirst,
		},
		"by another host, any name here": {[]string{api}, nil, false, true, findings.Problem, `hosts: ["*"]`},
	} {
		s := SelfCheck{Names: tt.names, Accepted: tt.accepted, Holder: tt.held}
		vip := netip.MustParseAddr("192.0.2.5")
		s.Add(Response{VIP: vip, Held: tt.held, Page: front})
		if tt.rejects {
			s.Challenges = map[netip.Addr]protocol.FetchResult{vip: front}
		}
		var got findings.Level
		for _, f := range s.Check().Findings {
			if f.ID != findings.NameNotAllowed || got != "" || !strings.Contains(f.Remediation, ": "+tt.line+". ") {
				t.Errorf("%s: %+v", name, f)
			}
			got = f.Level
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// TestForeignHost: a challenge for another name is a warning without the name, which a client chose,
// unless check itself has found a name that is not accepted.
func TestForeignHost(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 10, 20, 30, 0, time.UTC)
	for name, tt := range map[string]struct {
		s    SelfCheck
		want string
	}{
		"none": {SelfCheck{Accepted: []string{"api.lab.test"}}, ""},
		"one": {
			SelfCheck{Names: []string{"api.lab.test"}, Accepted: []string{"api.lab.test"}, ForeignHost: at},
			"warning: The proxy at this host does not accept challenges for <name of the challenge>, the name of a challenge that cert-manager or a " +
				"CA requested at 10:20:30 UTC: oc get challenge -A shows pending ones. If clients use this name for the API, set this " +
				`line in the configuration of every control-plane node: hosts: ["api.lab.test", "<name of the challenge>"]. `,
		},
		"the name in the files of the host": {
			SelfCheck{
				Names: []string{"other.lab.test"}, InFiles: []string{"api.lab.test"}, Accepted: []string{"other.lab.test"},
				Holder: true, ForeignHost: at,
			},
			"warning: The proxy at this host does not accept challenges for api.lab.test, the name of the API in the files of " +
				"this host. If clients use this name for the API, set this line in the configuration of every control-plane " +
				`node: hosts: ["other.lab.test", "api.lab.test"]. `,
		},
		"an accepted name in the files": {
			SelfCheck{InFiles: []string{"api.lab.test"}, Accepted: []string{"other.lab.test", "api.lab.test"}}, "",
		},
		"any name": {SelfCheck{InFiles: []string{"api.lab.test"}}, ""},
		"a known one": {
			SelfCheck{Names: []string{"api.lab.test"}, Accepted: []string{"other.lab.test"}, ForeignHost: at},
			"warning: The proxy at this host (once it holds a VIP) does not accept challenges for api.lab.test. ",
		},
	} {
		all, got := tt.s.Check().Findings, ""
		if len(all) > 0 {
			got = string(all[0].Level) + ": " + all[0].String()
		}
		if len(all) != min(len(tt.want), 1) || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

// TestOneFamilyIsDead: a VIP that does not respond is a problem, also while the other family works, and
// one on two hosts, as tests of the service have found.
func TestOneFamilyIsDead(t *testing.T) {
	t.Parallel()
	s := SelfCheck{VIPTests: []report.VIPTest{
		{Cause: string(findings.VIPTwoHosts)},
	}}
	s.Add(Response{VIP: netip.MustParseAddr("2001:db8::5"), Page: protocol.FetchResult{
		Connected: 1, Status: 400, Body: []byte(reqhead.OnlyChallenges),
	}})
	s.Add(Response{VIP: netip.MustParseAddr("192.0.2.5")})
	r := s.Check()
	if len(r.Findings) != 2 || r.Findings[0].ID != findings.ProxyUnreachable || r.Findings[1].ID != findings.VIPTwoHosts {
		t.Errorf("%+v", r)
	}
}

// TestUnreachableFromHere: one finding is about the VIPs of both families, and names what the service
// reports. If the request of this check is answered, the service's own finding is a warning.
func TestUnreachableFromHere(t *testing.T) {
	t.Parallel()
	v4, v6 := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5")
	s := SelfCheck{VIPTests: []report.VIPTest{
		{VIP: v4, Result: report.VIPTimedOut, Cause: string(findings.VIPUnreachableFromHere)},
		{VIP: v6, Result: report.VIPTimedOut, Cause: string(findings.VIPUnreachableFromHere)},
	}}
	closed, open := s, s
	for _, vip := range []netip.Addr{v4, v6} {
		closed.Add(Response{VIP: vip, Page: protocol.FetchResult{Cause: string(findings.IngressTimeout)}})
		open.Add(Response{VIP: vip, Page: protocol.FetchResult{
			Connected: 1, Status: 400, Body: []byte(reqhead.OnlyChallenges),
		}})
	}
	for want, s := range map[string]SelfCheck{
		"proxy-unreachable problem: http01-proxyd does not respond at 192.0.2.5:80 (also [2001:db8::5]:80): it does not reply " +
			"to connection attempts. The tests of the service on this host show the same [vip-unreachable-from-here]": closed,
		"vip-unreachable-from-here warning: Port 80 of the API VIP 192.0.2.5 (also 2001:db8::5) cannot be reached from this " +
			"host: the last tests of the service failed, but the request of this check was answered": open,
	} {
		r := s.Check()
		if len(r.Findings) != 1 {
			t.Fatalf("%+v", r)
		}
		f := r.Findings[0]
		if got := fmt.Sprintf("%s %s: %s", f.ID, f.Level, f.Message); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestSelfTestFailed: a failed self-test is a warning, which the fault itself explains.
func TestSelfTestFailed(t *testing.T) {
	t.Parallel()
	vip := netip.MustParseAddr("192.0.2.5")
	s := SelfCheck{Holder: true, SelfTests: []report.SelfTest{
		{VIP: netip.MustParseAddr("2001:db8::5"), OK: true},
		{VIP: vip, Cause: string(findings.IngressTimeout), Error: "192.0.2.6:80 does not reply"},
	}}
	s.Add(Response{VIP: vip, Held: true, Page: protocol.FetchResult{
		Connected: 1, Status: 400,
		Body: []byte(reqhead.OnlyChallenges),
	}})
	r := s.Check()
	if len(r.Findings) != 1 {
		t.Fatalf("%+v", r)
	}
	f := r.Findings[0]
	want := "The last self-test of 192.0.2.5:80, at 00:00:00, failed with the finding ingress-timeout: 192.0.2.6:80 " +
		"does not reply"
	if f.ID != findings.SelfTestFailed || f.Level != findings.Warning || f.Message != want || !slices.Contains(f.CausedBy,
		findings.IngressTimeout) {
		t.Errorf("%+v", f)
	}
}
