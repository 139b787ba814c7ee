// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"sync"
)

// TrustedCAs are the CA certificates that verify a router. Nothing is read from the
// host, because the process that verifies can open no file.
type TrustedCAs struct {
	base  *TrustedCAs // trusted too
	once  sync.Once
	roots [][]byte // DER, until they are parsed
	pool  *x509.CertPool
}

// NewTrustedCAs returns the trust in roots, certificates in DER. Without roots
// nothing is trusted. The caller must not change roots afterwards.
func NewTrustedCAs(roots [][]byte) *TrustedCAs { return &TrustedCAs{roots: roots} }

// certPool parses the roots when the first router is verified; most hosts never use
// TLS. The pool keeps their subjects and their encoding, and parses again only
// those of a chain. A host's system trust has about 150.
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
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}) // a bytes.Buffer never fails
			t.pool.AppendCertsFromPEM(text.Bytes())
		}
		t.roots = nil
	})
	return t.pool
}

// extendedBy returns the trust in the roots of t and in other roots. Without other
// roots it returns t.
func (t *TrustedCAs) extendedBy(roots [][]byte) *TrustedCAs {
	if len(roots) == 0 {
		return t
	}
	both := NewTrustedCAs(roots)
	both.base = t
	return both
}
