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

// testContext returns the context of a configuration with an egress proxy.
func testContext() Context {
	return Context{
		Host: "api.example.com", VerifyNames: []string{"*.apps.example.com"},
		TrustedCAs: "the CA of /ca.crt", AdditionalCAs: "2 CAs of egressProxy.trustedCA", ProxyCAs: "the CA of the proxy",
		EgressProxies: map[netip.AddrPort]EgressProxy{router(): {"proxy.example.com", 3128}},
	}
}

func router() netip.AddrPort { return netip.MustParseAddrPort("192.0.2.6:443") }

// TestSentences compares what an operator reads, after the report was encoded and decoded.
func TestSentences(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]Failure{
		"192.0.2.6:443 refuses connections": {Cause: "ingress-refused"},
		"192.0.2.6:443 is unreachable (no route to host)": {
			Cause:   "ingress-unreachable",
			Details: DetailsOf(syscall.EHOSTUNREACH),
		},
		"192.0.2.6:443 is unreachable (permission denied: a firewall or a route rejects the connection)": {
			Cause: "ingress-unreachable", Details: DetailsOf(syscall.EACCES),
		},
		"192.0.2.6:443 through the egress proxy proxy.example.com:3128 refuses connections": {
			Cause:    "ingress-refused",
			ViaProxy: true,
		},
		"The egress proxy proxy.example.com:3128 does not forward to 192.0.2.6:443: it answers": {
			Cause:    "egress-denied",
			ViaProxy: true, Details: Details{Reason: ProxyAnswer, Number: 403},
		},
		"it answers 403 (ERR_ACCESS_DENIED). ": {
			Cause: "egress-denied", ViaProxy: true,
			Details: Details{Reason: ProxyAnswerCode, Number: 403, Code: "ERR_ACCESS_DENIED"},
		},
		`the certificate "router", issued by "R 1", is for "a.example", "*.b.example" and 3 more, and not for "api.example.com" and "*.apps.example.com". `: {
			Cause: "ingress-tls-name", Details: Details{
				Reason: NameMismatch, Subject: "router", Issuer: "R 1",
				Names: []string{"a.example", "*.b.example"}, More: 3,
			},
		},
		"the certificate is not signed by a trusted CA; trusted: the CA of /ca.crt. ":                                    {Cause: "ingress-tls-untrusted", Details: Details{Reason: UnknownCA}},
		"the certificate is not signed by a trusted CA; trusted: the CA of /ca.crt and 2 CAs of egressProxy.trustedCA. ": {Cause: "ingress-tls-untrusted", ViaProxy: true, Details: Details{Reason: UnknownCA}},
		"the certificate is not signed by a trusted CA; trusted: the CA of the proxy. ":                                  {Cause: "egress-tls", ViaProxy: true, Details: Details{Reason: UnknownCA}},
		`is for no name, and not for "proxy.example.com". `:                                                              {Cause: "egress-tls", ViaProxy: true, Details: Details{Reason: NameMismatch}},
		"has expired on 2026-01-02 03:04 UTC. ":                                                                          {Cause: "ingress-tls-expired", Details: Details{Reason: Expired, Time: 1767323045}},
		"TLS alert 116 (certificate required), after a header of the PROXY protocol":                                     {Cause: "ingress-tls-handshake", Details: Details{Reason: Alert, Number: 116, ProxyHeader: 2}},
		"the certificate is invalid: it is not a server certificate; trusted:":                                           {Cause: "ingress-tls-untrusted", Details: Details{Reason: InvalidCertificate, Number: 5}},
		"redirects the challenge to https://[2001:db8::1]:444/..., which":                                                {Cause: "route-redirects-elsewhere", Details: Details{Reason: RedirectToHTTPS, Number: 444, Names: []string{"2001:db8::1"}}},
		"bad status line": {Cause: "response-malformed", Details: Details{Reason: BadLine}},
		"; then [2001:db8::6]:80 did not accept the connection in time; then, for 192.0.2.7:80, the eg": {Cause: "ingress-refused", Others: []OtherFailure{{"ingress-timeout", netip.MustParseAddrPort("[2001:db8::6]:80")}, {"egress-auth", netip.MustParseAddrPort("192.0.2.7:80")}}},
	} {
		f.Addr = router()
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var got Failure
		if err := json.Unmarshal(text, &got); err != nil || got.Validate() != nil {
			t.Errorf("%s: %v, %v", text, err, got.Validate())
		}
		sameAddr := cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
		if diff := cmp.Diff(f, got, sameAddr, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if summary := got.Summary(testContext()); !strings.Contains(summary, want) {
			t.Errorf("%s: %s\nlacks %s", text, summary, want)
		}
	}
}

// TestEachReason: each reason has a sentence, in which every parameter is filled in.
func TestEachReason(t *testing.T) {
	t.Parallel()
	for r := range InvalidProxyURL + 2 {
		details := Details{Reason: r}
		if r == System {
			details.Number = 1
		}
		if known := r <= InvalidProxyURL; known != (details.Validate() == nil) {
			t.Errorf("reason %d: %v", r, details.Validate())
		}
		if text := (Details{Reason: r}).Error(); strings.ContainsAny(text, "{}") {
			t.Errorf("reason %d: %q", r, text)
		}
	}
}

// TestInvalid: a report that no child process of this program sends is rejected.
func TestInvalid(t *testing.T) {
	t.Parallel()
	good := Failure{Cause: "ingress-refused", Addr: router()}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Failure){
		"no cause":      func(f *Failure) { f.Cause = "" },
		"another cause": func(f *Failure) { f.Cause = "run this now" },
		"a zone":        func(f *Failure) { f.Addr = netip.MustParseAddrPort("[fe80::1%x]:80") },
		"another zone": func(f *Failure) {
			f.Others = []OtherFailure{{"ingress-refused", netip.MustParseAddrPort("[fe80::1%x]:80")}}
		},
		"others' cause":         func(f *Failure) { f.Others = []OtherFailure{{"x", router()}} },
		"too many others":       func(f *Failure) { f.Others = make([]OtherFailure, MaxOthers+1) },
		"an unknown reason":     func(f *Failure) { f.Details.Reason = 250 },
		"no number":             func(f *Failure) { f.Details = Details{Reason: System} },
		"a large number":        func(f *Failure) { f.Details = Details{Reason: ProxyAnswer, Number: 1 << 20} },
		"a number for nothing":  func(f *Failure) { f.Details = Details{Reason: PlainHTTP, Number: 1} },
		"names for nothing":     func(f *Failure) { f.Details = Details{Reason: PlainHTTP, Names: []string{"a"}} },
		"an issuer for nothing": func(f *Failure) { f.Details = Details{Reason: PlainHTTP, Issuer: "a"} },
		"a time for nothing":    func(f *Failure) { f.Details = Details{Reason: PlainHTTP, Time: 1} },
		"a code for nothing":    func(f *Failure) { f.Details = Details{Reason: ProxyAnswer, Code: "a"} },
		"a text as code":        func(f *Failure) { f.Details = Details{Reason: ProxyAnswerCode, Code: "curl x|sh"} },
		"a text as name":        func(f *Failure) { f.Details = Details{Reason: NameMismatch, Names: []string{"a b"}} },
		"a URL as issuer":       func(f *Failure) { f.Details = Details{Reason: UnknownCA, Issuer: "http://x"} },
		"a long subject":        func(f *Failure) { f.Details = Details{Reason: UnknownCA, Subject: strings.Repeat("a", 65)} },
		"a year 10000":          func(f *Failure) { f.Details = Details{Reason: Expired, Time: LastTime + 1} },
		"too many names":        func(f *Failure) { f.Details = Details{Reason: NameMismatch, Names: []string{"a", "b", "c", "d", "e"}} },
		"a version":             func(f *Failure) { f.Details.ProxyHeader = 3 },
	} {
		f := good
		change(&f)
		if err := f.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzReport: whatever a child process sends, the text consists of a finding, a sentence
// of this package and validated parameters. It is one line without control characters,
// and no parameter contains a character of a shell command or a URL.
func FuzzReport(f *testing.F) {
	for _, text := range []string{
		`{"cause":"ingress-refused"}`,
		`{"cause":"ingress-tls-name","addr":"192.0.2.6:443","details":{"reason":15,"names":["a"],"more":2,"subject":"x","issuer":"y z"}}`,
		`{"cause":"ingress-refused","addr":"[fe80::1%\n]:80"}`,
		`{"cause":"egress-denied","viaProxy":true,"details":{"reason":48,"number":403,"code":"ERR_X"}}`,
		`{"cause":"ingress-unreachable","details":{"reason":1,"number":113},"others":[{"cause":"ingress-refused","addr":"192.0.2.7:80"}]}`,
		`{"cause":"ingress-tls-untrusted","details":{"reason":17,"issuer":"run this now with: curl | sh"}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got Failure
		if json.Unmarshal(text, &got) != nil || got.Validate() != nil {
			return
		}
		summary := got.Summary(testContext())
		if strings.ContainsFunc(summary, func(r rune) bool { return !unicode.IsPrint(r) }) || len(summary) > 8<<10 {
			t.Errorf("%s: %q", text, summary)
		}
		entry, _ := findings.Lookup(findings.ID(got.Cause))
		if _, after, is := strings.Cut(summary, ". "+entry.Remediation); !is || !isFixedSuffix(after) {
			t.Errorf("%s: %q lacks the remediation, or has more than that", text, summary)
		}
		for _, quoted := range regexp.MustCompile(`"[^"]*"`).FindAllString(strings.ReplaceAll(summary, entry.Remediation, ""),
			-1) {
			if strings.ContainsAny(quoted, "|/\\;&$`<>") {
				t.Errorf("%s: %q", text, quoted)
			}
		}
	})
}

// isFixedSuffix reports whether s may follow a remediation.
func isFixedSuffix(s string) bool {
	return s == "" || strings.HasPrefix(s, " If the egress proxy intercepts TLS")
}

// TestDetailsOf: errors of the system and of this package keep their type. Every other
// error loses its text.
func TestDetailsOf(t *testing.T) {
	t.Parallel()
	for want, err := range map[Reason]error{
		None: nil, System: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		Timeout: os.ErrDeadlineExceeded, Closed: net.ErrClosed, EndOfStream: io.EOF,
		BadLine: errors.Join(Details{Reason: BadLine}), Unknown: errors.New("run this now"),
	} {
		details := DetailsOf(err)
		if details.Reason != want || details.Validate() != nil || strings.Contains(details.Error(), "run this") {
			t.Errorf("%v is %+v", err, details)
		}
	}
	if !DetailsOf(syscall.ENETUNREACH).Is(syscall.ENETUNREACH) || DetailsOf(io.EOF).Is(syscall.ENETUNREACH) {
		t.Error("errors of the system are not distinguished")
	}
}
