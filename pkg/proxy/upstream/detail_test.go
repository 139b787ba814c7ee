// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// reportedFailure returns what the controller receives of an error, and its own
// context.
func reportedFailure(e *Error) (cause.Failure, cause.Context) {
	text, err := json.Marshal(e.Failure())
	if err != nil {
		panic(err)
	}
	var f cause.Failure
	if err := json.Unmarshal(text, &f); err != nil {
		panic(err)
	}
	if err := f.Validate(); err != nil || !reflect.DeepEqual(f, e.Failure()) {
		panic(string(text))
	}
	c := cause.Context{Host: "api.example.com", TrustedCAs: "the CAs of the lab", ProxyCAs: "the CA of the proxy itself"}
	if e.EgressProxy != "" {
		name, _, err := net.SplitHostPort(e.EgressProxy)
		if err != nil {
			name = e.EgressProxy
		}
		c.EgressProxies = map[netip.AddrPort]cause.EgressProxy{f.Addr: {Name: name}}
	}
	return f, c
}

// Detail is the sentence that the controller renders.
func (e *Error) Detail() string {
	f, c := reportedFailure(e)
	return f.Summary(c)
}

// Finding is the finding that the controller selects.
func (e *Error) Finding() findings.Finding {
	f, c := reportedFailure(e)
	return f.Finding(c)
}

// TestLongestDetail: the remediation is at the end, and is complete whatever a
// certificate, the names and the proxy contain.
func TestLongestDetail(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\U0001F512", 200)
	var names []string
	for range 2 * cause.MaxNames {
		names = append(names, strings.Join([]string{
			strings.Repeat("x", 63), strings.Repeat("y", 63), strings.Repeat("z", 63),
			strings.Repeat("w", 61),
		}, "."))
	}
	leaf := &x509.Certificate{
		Subject: pkix.Name{CommonName: long}, Issuer: pkix.Name{CommonName: strings.Repeat("i", 64)},
		DNSNames: names,
	}
	for id, err := range map[findings.ID]error{
		findings.IngressTLSName:      untrusted(leaf, x509.HostnameError{Certificate: leaf}, time.Now()),
		findings.IngressTLSUntrusted: untrusted(leaf, x509.UnhandledCriticalExtension{}, time.Now()),
		findings.EgressDenied:        cause.Details{Reason: cause.ProxyAnswerCode, Number: 403, Code: "ERR_ACCESS_DENIED"},
		findings.EgressTLS:           untrusted(leaf, x509.UnknownAuthorityError{}, time.Now()),
	} {
		e := &Error{
			Cause: id, Addr: netip.MustParseAddrPort("[2001:db8:1111:2222:3333:4444:5555:6666]:65535"),
			EgressProxy: strings.Repeat("p", 253) + ":65535", Err: err,
		}
		if text := e.Detail(); len(text) > 3<<10 || !strings.HasSuffix(text, e.Finding().Remediation) {
			t.Errorf("%s has %d bytes: %s", id, len(text), text)
		}
	}
}
