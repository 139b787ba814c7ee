// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"sync"
)

// Trust is the set of certificates that a router's has to lead to. Nothing is read
// from the host: the process that verifies may open no file.
type Trust struct {
	about string

	more  *Trust // which is trusted besides
	parse sync.Once
	roots [][]byte // DER, until they are parsed
	pool  *x509.CertPool
}

// NewTrust returns the trust in roots, certificates as DER; none trusts nothing.
// About says in one line what they are, for a diagnosis. Roots is not changed, and
// must not be afterwards.
func NewTrust(roots [][]byte, about string) *Trust {
	return &Trust{roots: roots, about: about}
}

// authorities parses the roots when the first router is verified: most hosts never
// speak TLS. The pool then has their subjects and what they are parsed from, and
// parses those again that a chain leads to: a host's system trust has some 150.
func (t *Trust) authorities() *x509.CertPool {
	if t == nil {
		return x509.NewCertPool()
	}
	t.parse.Do(func() {
		t.pool = x509.NewCertPool()
		if t.more != nil {
			t.pool = t.more.authorities().Clone()
		}
		var text bytes.Buffer
		for _, der := range t.roots {
			text.Reset()
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}) // a bytes.Buffer takes all
			t.pool.AppendCertsFromPEM(text.Bytes())
		}
		t.roots = nil
	})
	return t.pool
}

// with is the trust in what t trusts and in other roots. It is t when there are none.
func (t *Trust) with(roots [][]byte, about string) *Trust {
	if len(roots) == 0 {
		return t
	}
	both := NewTrust(roots, about)
	both.more = t
	if t != nil && t.about != "" {
		both.about = t.about + " and " + about
	}
	return both
}
