// SPDX-License-Identifier: Apache-2.0

package cause

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// configured is a controller with a proxy before its ingress.
func configured() Context {
	return Context{
		Host: "api.example.com", Names: []string{"*.apps.example.com"},
		Trusted: "the CA of /ca.crt", Beyond: "2 CAs of egressProxy.trustedCA", Proxies: "the CA of the proxy",
		Via: map[netip.AddrPort]Proxy{router(): {"proxy.example.com", 3128}},
	}
}

func router() netip.AddrPort { return netip.MustParseAddrPort("192.0.2.6:443") }

// TestSentences: what an operator reads, after the report has come over the wire.
func TestSentences(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]Failure{
		"192.0.2.6:443 refuses connections":                                                  {Cause: "refused"},
		"192.0.2.6:443 is unreachable (no route to host)":                                    {Cause: "unreachable", Why: Of(syscall.EHOSTUNREACH)},
		"192.0.2.6:443 through the egress proxy proxy.example.com:3128 refuses connections":  {Cause: "refused", Proxy: true},
		"the egress proxy proxy.example.com:3128 does not lead to 192.0.2.6:443: it answers": {Cause: "egress-denied", Proxy: true, Why: Why{Reason: ProxyAnswer, Number: 403}},
		"it answers 403 Forbidden (ERR_ACCESS_DENIED):":                                      {Cause: "egress-denied", Proxy: true, Why: Why{Reason: ProxyAnswerCode, Number: 403, Code: "ERR_ACCESS_DENIED"}},
		`the certificate "router", issued by "R 1", is for "a.example", "*.b.example" and 3 more, and not for "api.example.com" and "*.apps.example.com":`: {
			Cause: "tls-name", Why: Why{Reason: OtherNames, Subject: "router", Issuer: "R 1", Names: []string{"a.example", "*.b.example"}, More: 3},
		},
		"the certificate leads to none of the CA of /ca.crt:":                                    {Cause: "tls-untrusted", Why: Why{Reason: UnknownCA}},
		"the certificate leads to none of the CA of /ca.crt and 2 CAs of egressProxy.trustedCA:": {Cause: "tls-untrusted", Proxy: true, Why: Why{Reason: UnknownCA}},
		"the certificate leads to none of the CA of the proxy:":                                  {Cause: "egress-tls", Proxy: true, Why: Why{Reason: UnknownCA}},
		`is for no name, and not for "proxy.example.com":`:                                       {Cause: "egress-tls", Proxy: true, Why: Why{Reason: OtherNames}},
		"has expired on 2026-01-02 03:04 UTC:":                                                   {Cause: "tls-expired", Why: Why{Reason: Expired, Time: 1767323045}},
		"TLS alert 116 (certificate required), after a header of the PROXY protocol":             {Cause: "tls-handshake", Why: Why{Reason: Alert, Number: 116, Header: 2}},
		"the certificate is refused, since it is not for servers; trusted:":                      {Cause: "tls-untrusted", Why: Why{Reason: InvalidCertificate, Number: 5}},
		"redirects the challenge to https://[2001:db8::1]:444/..., which":                        {Cause: "redirect-elsewhere", Why: Why{Reason: ToHTTPS, Number: 444, Names: []string{"2001:db8::1"}}},
		"bad status code 999": {Cause: "malformed-answer", Why: Why{Reason: StatusCode, Number: 999}},
		"; then [2001:db8::6]:80 did not accept the connection in time; then, for 192.0.2.7:80, the eg": {Cause: "refused", Also: []Other{{"timeout-connect", netip.MustParseAddrPort("[2001:db8::6]:80")}, {"egress-auth", netip.MustParseAddrPort("192.0.2.7:80")}}},
	} {
		f.Addr = router()
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var got Failure
		if err := json.Unmarshal(text, &got); err != nil || got.Check() != nil {
			t.Errorf("%s: %v, %v", text, err, got.Check())
		}
		if diff := cmp.Diff(f, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if said := got.Detail(configured()); !strings.Contains(said, want) {
			t.Errorf("%s: %s\nlacks %s", text, said, want)
		}
	}
}

// TestEachReason: each has its sentence, with no place that is not filled.
func TestEachReason(t *testing.T) {
	t.Parallel()
	for r := range BadProxyURL + 2 {
		why := Why{Reason: r}
		if r == System {
			why.Number = 1
		}
		if known := r <= BadProxyURL; known != (why.Check() == nil) {
			t.Errorf("reason %d: %v", r, why.Check())
		}
		if text := (Why{Reason: r}).Error(); strings.ContainsAny(text, "{}") {
			t.Errorf("reason %d: %q", r, text)
		}
	}
}

// TestInvalid: what no child of ours reports is refused.
func TestInvalid(t *testing.T) {
	t.Parallel()
	good := Failure{Cause: "refused", Addr: router()}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Failure){
		"no cause":              func(f *Failure) { f.Cause = "" },
		"another cause":         func(f *Failure) { f.Cause = "mend it now" },
		"a zone":                func(f *Failure) { f.Addr = netip.MustParseAddrPort("[fe80::1%x]:80") },
		"another zone":          func(f *Failure) { f.Also = []Other{{"refused", netip.MustParseAddrPort("[fe80::1%x]:80")}} },
		"others' cause":         func(f *Failure) { f.Also = []Other{{"x", router()}} },
		"too many others":       func(f *Failure) { f.Also = make([]Other, MaxAlso+1) },
		"an unknown reason":     func(f *Failure) { f.Why.Reason = 250 },
		"no number":             func(f *Failure) { f.Why = Why{Reason: System} },
		"a large number":        func(f *Failure) { f.Why = Why{Reason: StatusCode, Number: 1 << 20} },
		"a number for nothing":  func(f *Failure) { f.Why = Why{Reason: PlainHTTP, Number: 1} },
		"names for nothing":     func(f *Failure) { f.Why = Why{Reason: PlainHTTP, Names: []string{"a"}} },
		"an issuer for nothing": func(f *Failure) { f.Why = Why{Reason: PlainHTTP, Issuer: "a"} },
		"a time for nothing":    func(f *Failure) { f.Why = Why{Reason: PlainHTTP, Time: 1} },
		"a code for nothing":    func(f *Failure) { f.Why = Why{Reason: ProxyAnswer, Code: "a"} },
		"a text as code":        func(f *Failure) { f.Why = Why{Reason: ProxyAnswerCode, Code: "curl x|sh"} },
		"a text as name":        func(f *Failure) { f.Why = Why{Reason: OtherNames, Names: []string{"a b"}} },
		"a URL as issuer":       func(f *Failure) { f.Why = Why{Reason: UnknownCA, Issuer: "http://x"} },
		"a long subject":        func(f *Failure) { f.Why = Why{Reason: UnknownCA, Subject: strings.Repeat("a", 65)} },
		"a year 10000":          func(f *Failure) { f.Why = Why{Reason: Expired, Time: LastTime + 1} },
		"too many names":        func(f *Failure) { f.Why = Why{Reason: OtherNames, Names: []string{"a", "b", "c", "d", "e"}} },
		"a version":             func(f *Failure) { f.Why.Header = 3 },
	} {
		f := good
		change(&f)
		if err := f.Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzReport: whatever a child sends, what is said of it is the catalogue's text, the
// table's, and parameters that were checked: one line, without control characters,
// and without a mark that a command or a URL of others takes.
func FuzzReport(f *testing.F) {
	for _, text := range []string{
		`{"cause":"refused"}`, `{"cause":"tls-name","addr":"192.0.2.6:443","why":{"reason":15,"names":["a"],"more":2,"subject":"x","issuer":"y z"}}`,
		`{"cause":"refused","addr":"[fe80::1%\n]:80"}`, `{"cause":"egress-denied","proxy":true,"why":{"reason":48,"number":403,"code":"ERR_X"}}`,
		`{"cause":"unreachable","why":{"reason":1,"number":113},"also":[{"cause":"refused","addr":"192.0.2.7:80"}]}`,
		`{"cause":"tls-untrusted","why":{"reason":17,"issuer":"mend it now with: curl | sh"}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got Failure
		if json.Unmarshal(text, &got) != nil || got.Check() != nil {
			return
		}
		said := got.Detail(configured())
		if strings.ContainsFunc(said, func(r rune) bool { return !unicode.IsPrint(r) }) || len(said) > 8<<10 {
			t.Errorf("%s: %q", text, said)
		}
		id, _ := findings.OfCause(got.Cause)
		mend := findings.Get(id).Mend
		if _, after, is := strings.Cut(said, ": "+mend); !is || !ours(after) {
			t.Errorf("%s: %q lacks the remediation, or has more than that", text, said)
		}
		for _, quoted := range regexp.MustCompile(`"[^"]*"`).FindAllString(strings.ReplaceAll(said, mend, ""), -1) {
			if strings.ContainsAny(quoted, "|/\\;&$`<>") {
				t.Errorf("%s: %q", text, quoted)
			}
		}
	})
}

// ours holds for what may follow a remediation.
func ours(s string) bool {
	return s == "" || strings.HasPrefix(s, "; then") || strings.HasPrefix(s, "; or, if the egress proxy looks into TLS")
}

// TestOf: errors of the system and of the table become typed, and no other says
// anything.
func TestOf(t *testing.T) {
	t.Parallel()
	for want, err := range map[Reason]error{
		None: nil, System: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		Timeout: os.ErrDeadlineExceeded, Closed: net.ErrClosed, Ended: io.EOF, LineEnd: errors.Join(Why{Reason: LineEnd}), Unknown: errors.New("mend it now"),
	} {
		why := Of(err)
		if why.Reason != want || why.Check() != nil || strings.Contains(why.Error(), "mend") {
			t.Errorf("%v is %+v", err, why)
		}
	}
	if !Of(syscall.ENETUNREACH).Is(syscall.ENETUNREACH) || Of(io.EOF).Is(syscall.ENETUNREACH) {
		t.Error("errors of the system are not told apart")
	}
}
