// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"
)

// noon is the current time of the tests.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

var testKeys = sync.OnceValues(
	func() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) })

func key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := testKeys()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// ca is the template of a valid CA.
func ca(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(0xabc), Subject: pkix.Name{CommonName: name},
		NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(time.Hour),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
	}
}

// signed returns the DER of a template, self-issued without a parent.
func signed(t testing.TB, template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) []byte {
	t.Helper()
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// validCA returns the PEM of a CA, with changes.
func validCA(t testing.TB, name string, change ...func(*x509.Certificate)) string {
	t.Helper()
	c := ca(name)
	for _, f := range change {
		f(c)
	}
	return block("CERTIFICATE", signed(t, c, nil, key(t).Public(), key(t)))
}

func rsaKey(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// forgeableCA returns a certificate of another issuer with a forgeable signature
// algorithm. No library signs with it any more, so the algorithm is replaced in a valid
// certificate.
func forgeableCA(t testing.TB, name string, issuer *x509.Certificate, oid string) string {
	t.Helper()
	const sha256WithRSA = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b"
	k := rsaKey(t, 2048)
	der := string(signed(t, ca(name), issuer, k.Public(), k))
	if strings.Count(der, sha256WithRSA) != 2 {
		t.Fatal("where is the algorithm?")
	}
	return block("CERTIFICATE", []byte(strings.ReplaceAll(der, sha256WithRSA, oid)))
}

const (
	sha1WithRSA = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05"
	md5WithRSA  = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04"
)
