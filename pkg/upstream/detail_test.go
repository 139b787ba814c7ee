// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestLongestDetail: the mend stands at the end, and is there whatever a certificate,
// the names and the proxy are like.
func TestLongestDetail(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\U0001F512", 200)
	var names, others []string
	for range 2 * maxNamed {
		names, others = append(names, strings.Repeat("x", 253)), append(others, strings.Repeat("z", 253))
	}
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: long}, Issuer: pkix.Name{CommonName: long}, DNSNames: names}
	v := newVerifier(NewTrust(nil, long), others)
	for cause, err := range map[Cause]error{
		TLSName:      v.verifyName(leaf, strings.Repeat("y", 253)),
		TLSUntrusted: v.refuseChain(leaf, x509.UnhandledCriticalExtension{}, time.Now()),
		EgressDenied: &proxyRefusal{403, strings.Repeat("z", 2*maxReason)},
		EgressTLS:    v.refuseChain(leaf, x509.UnknownAuthorityError{}, time.Now()),
	} {
		e := &Error{
			Cause: cause, Addr: netip.MustParseAddrPort("[2001:db8:1111:2222:3333:4444:5555:6666]:65535"),
			Proxy: strings.Repeat("p", 253) + ":65535", Err: err,
		}
		if text := e.Detail(); len(text) > MaxDetail || !strings.HasSuffix(text, e.Finding().Mend) {
			t.Errorf("%s has %d bytes: %s", cause, len(text), text)
		} else {
			t.Logf("%s: %d bytes", cause, len(text))
		}
	}
}
