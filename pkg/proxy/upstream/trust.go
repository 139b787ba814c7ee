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
	more  *Trust // which is trusted besides
	parse sync.Once
	roots [][]byte // DER, until they are parsed
	pool  *x509.CertPool
}

// NewTrust returns the trust in roots, certificates as DER; none trusts nothing.
// Roots is not changed, and must not be afterwards.
func NewTrust(roots [][]byte) *Trust { return &Trust{roots: roots} }

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
func (t *Trust) with(roots [][]byte) *Trust {
	if len(roots) == 0 {
		return t
	}
	both := NewTrust(roots)
	both.more = t
	return both
}
