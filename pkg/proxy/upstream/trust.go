// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"sync"
)

// TrustedCAs is the set of certificates that a router's has to lead to. Nothing is read
// from the host: the process that verifies may open no file.
type TrustedCAs struct {
	base  *TrustedCAs // which is trusted besides
	once  sync.Once
	roots [][]byte // DER, until they are parsed
	pool  *x509.CertPool
}

// NewTrustedCAs returns the trust in roots, certificates as DER; none trusts nothing.
// Roots is not changed, and must not be afterwards.
func NewTrustedCAs(roots [][]byte) *TrustedCAs { return &TrustedCAs{roots: roots} }

// certPool parses the roots when the first router is verified: most hosts never
// speak TLS. The pool then has their subjects and what they are parsed from, and
// parses those again that a chain leads to: a host's system trust has some 150.
func (t *TrustedCAs) certPool() *x509.CertPool {
	if t == nil {
		return x509.NewCertPool()
	}
	t.once.Do(func() {
		t.pool = x509.NewCertPool()
		if t.base != nil {
			t.pool = t.base.certPool().Clone()
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

// extendedBy is the trust in what t trusts and in other roots. It is t when there are none.
func (t *TrustedCAs) extendedBy(roots [][]byte) *TrustedCAs {
	if len(roots) == 0 {
		return t
	}
	both := NewTrustedCAs(roots)
	both.base = t
	return both
}
