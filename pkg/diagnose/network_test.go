// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKubeconfigName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "",
		"    server: https://api-int.lab.test:6443\n":    "api.lab.test",
		"    server: \"https://API.lab.test:6443/\"\n":   "api.lab.test",
		"    server: https://192.0.2.5:6443\n":           "",
		"    server: https://localhost:6443\n":           "",
		"server: :::\n- server: https://api-int.x.y\n":   "api.x.y",
		"users:\n- name: api-int.lab.test\n  user: {}\n": "",
	} {
		if got := kubeconfigName(writeFile(t, text)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := kubeconfigName(filepath.Join(t.TempDir(), "absent")); got != "" {
		t.Errorf("an absent file: %q", got)
	}
}

func TestPublicNames(t *testing.T) {
	t.Parallel()
	got := publicNames([]string{"kubernetes", "api-int.a.b", "API.a.b", "api.a.b", "api.c", "*.apps.a.b"})
	if diff := cmp.Diff([]string{"api.a.b", "api.c"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDNSServers(t *testing.T) {
	t.Parallel()
	h := &host{addresses: []address.Address{{IP: netip.MustParseAddr("192.0.2.11")}}}
	h.ResolvConf = writeFile(t, "# of a node\nsearch a.b\nnameserver 192.0.2.11\nnameserver 198.51.100.1\nnameserver ::1\nnameserver nonsense\nnameserver 2001:db8::1\noptions edns0\n")
	got, err := h.dnsServers()
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, s := range got {
		own := ""
		if s.local {
			own = " own"
		}
		texts = append(texts, s.addr.String()+own)
	}
	if diff := cmp.Diff([]string{"192.0.2.11:53 own", "198.51.100.1:53", "[::1]:53 own", "[2001:db8::1]:53"}, texts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBestViews: OpenShift's DNS on each node returns the VIPs, whatever external
// clients get. It counts only if no other server responds.
func TestBestViews(t *testing.T) {
	t.Parallel()
	own := dnsServer{netip.MustParseAddrPort("192.0.2.11:53"), true}
	first, second := dnsServer{netip.MustParseAddrPort("198.51.100.1:53"), false}, dnsServer{netip.MustParseAddrPort("198.51.100.2:53"), false}
	well, silent, fails := dnsRecord{}, dnsRecord{LookupResult: protocol.LookupResult{Failure: protocol.ServerSilent}}, dnsRecord{LookupResult: protocol.LookupResult{Failure: protocol.ServerError}}
	unqueried := dnsRecord{err: errNoTime}
	of := func(s dnsServer, a, aaaa dnsRecord) dnsView {
		return dnsView{server: s, name: "a", records: [2]dnsRecord{a, aaaa}}
	}
	for name, tt := range map[string]struct {
		views []dnsView
		want  dnsServer
	}{
		"the first external server":        {[]dnsView{of(own, well, well), of(first, well, well), of(second, well, well)}, first},
		"a complete response":              {[]dnsView{of(first, well, silent), of(second, well, well)}, second},
		"an incomplete external response":  {[]dnsView{of(own, well, well), of(first, well, fails)}, first},
		"a lost external response":         {[]dnsView{of(own, well, well), of(first, silent, well)}, first},
		"a failing external server":        {[]dnsView{of(own, well, well), of(first, fails, fails)}, first},
		"only the local server responds":   {[]dnsView{of(first, silent, silent), of(own, well, well)}, own},
		"the external one was not queried": {[]dnsView{of(first, unqueried, unqueried), of(own, well, well)}, own},
		"incomplete before failed":         {[]dnsView{of(first, fails, fails), of(second, well, fails)}, second},
	} {
		if got := bestViews(tt.views); len(got) != 1 || got[0].server != tt.want {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if got := bestViews([]dnsView{{server: first, name: "a"}, {server: first, name: "b"}}); len(got) != 2 {
		t.Errorf("each name: got %+v", got)
	}
	if !(dnsResult{views: []dnsView{of(first, silent, silent)}}).unanswered() || (dnsResult{views: []dnsView{of(first, silent, fails)}}).unanswered() {
		t.Error("an error counts as no response")
	}
}

func TestTimeServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dhcp.sources"), []byte("server 192.0.2.123 iburst\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := writeFile(t, "# server commented\nPool 2.rhel.pool.ntp.org iburst\nserver time.example.com\nserver time.example.com nts\npeer 2001:db8::123\nsourcedir "+dir+"\nsourcedir /absent\nmakestep 1.0 3\n")
	if diff := cmp.Diff([]string{"192.0.2.123", "2.rhel.pool.ntp.org", "2001:db8::123", "time.example.com"}, timeServers(path)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKeyFault(t *testing.T) {
	t.Parallel()
	thumbprint := strings.Repeat("x", 43)
	for name, tt := range map[string]struct {
		body string
		more int // bytes of the body after the received part
		want findings.ID
		what string
	}{
		"the key":               {"tok." + thumbprint, 0, "", ""},
		"a line break":          {"tok." + thumbprint + "\n", 0, findings.ResponseTrailingSpace, "a line break"},
		"another line break":    {"tok." + thumbprint + "\r\n", 0, findings.ResponseTrailingSpace, "a line break"},
		"blanks":                {"tok." + thumbprint + "  \n\n", 0, findings.ResponseTrailingSpace, "white space of 4 bytes"},
		"too long":              {"tok." + thumbprint + strings.Repeat("y", 90), 0, findings.ResponseTooLong, "137"},
		"far too long":          {"tok." + thumbprint, 5000, findings.ResponseTooLong, "5047"},
		"a longer thumbprint":   {"tok." + thumbprint + "y", 0, findings.ResponseNotKey, "the token without a valid thumbprint, 48 bytes in all"},
		"of another token":      {"other." + thumbprint, 0, findings.ResponseNotKey, "a text of 49 bytes"},
		"a longer token":        {"tokk." + thumbprint, 0, findings.ResponseNotKey, "a text of 48 bytes"},
		"nothing":               {"", 0, findings.ResponseNotKey, "empty"},
		"HTML":                  {"\n<!DOCTYPE HTML>\n<html></html>", 0, findings.ResponseNotKey, "an HTML page of 30 bytes"},
		"what only looks right": {"tok." + strings.Repeat("x", 42) + "=", 0, findings.ResponseNotKey, "the token without a valid thumbprint, 47 bytes in all"},
	} {
		id, values := keyFault([]byte(tt.body), len(tt.body)+tt.more, "tok")
		what := values["what"] + values["bytes"]
		if id != tt.want || what != tt.what {
			t.Errorf("%s: got %s %q, want %s %q", name, id, what, tt.want, tt.what)
		}
	}
}

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
		p := presentedCertificate{prober.CertificateResult{Certificate: &protocol.Certificate{NotBefore: now.Add(tt.left - tt.life), NotAfter: now.Add(tt.left)}}}
		var got findings.ID
		for _, f := range p.judgeDates(now) {
			got = f.ID
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for o, bad := range map[Options]bool{
		{}: false,
		{APIName: "api.cluster.example.com", Token: "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"}: false,
		{APIName: "api.cluster.example.com:6443"}:                                                  true,
		{APIName: "https://api.x.y"}:                                                               true,
		{APIName: "192.0.2.5"}:                                                                     true,
		{APIName: "a_b"}:                                                                           false, // allowed in hosts
		{APIName: "*.x.y"}:                                                                         true,
		{Token: "a b"}:                                                                             true,
		{Token: "x\r\nHost: y"}:                                                                    true,
		{Token: "../x"}:                                                                            true,
	} {
		if got := o.Validate(); (got != nil) != bad {
			t.Errorf("%+v: %v", o, got)
		}
	}
}

// TestFamilyOrder: Let's Encrypt falls back to IPv4 only if IPv6 cannot be connected.
func TestFamilyOrder(t *testing.T) {
	t.Parallel()
	v6, v4 := netip.MustParseAddrPort("[2001:db8::5]:80"), netip.MustParseAddrPort("192.0.2.5:80")
	key := []byte("tok." + strings.Repeat("x", 43))
	good := protocol.FetchResult{Connected: 1, Status: 200, Body: key, Length: len(key)}
	h := &host{Options: Options{Token: "tok"}}
	for name, tt := range map[string]struct {
		ways []addressResponse
		want Outcome
		to   string
	}{
		"both":                        {[]addressResponse{{v6, good}, {v4, good}}, OK, v6.String()},
		"IPv6 cannot be connected to": {[]addressResponse{{v6, protocol.FetchResult{Cause: "refused"}}, {v4, good}}, OK, v4.String()},
		"IPv6 connects and is silent": {[]addressResponse{{v6, protocol.FetchResult{Connected: 1, Cause: "timeout-response"}}, {v4, good}}, Problem, v6.String()},
		"neither":                     {[]addressResponse{{v6, protocol.FetchResult{Cause: "refused"}}}, Problem, ""},
		"no address":                  {nil, Problem, ""},
	} {
		got := h.letsEncryptStep(tt.ways)
		if got.Outcome != tt.want || got.To != tt.to {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
