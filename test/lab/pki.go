// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"time"
)

// Authority is a CA of the lab's own: a root, or an intermediate below one.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	above       []*x509.Certificate // intermediates from this one up, without the root
}

// ServerCertificate says what a server's certificate is for. The zero times mean: valid for
// a day around now.
type ServerCertificate struct {
	Names     []string
	Addresses []netip.Addr
	NotBefore time.Time
	NotAfter  time.Time
}

// Identity is what a TLS server presents, in PEM.
type Identity struct {
	Chain []byte // the leaf and the intermediates
	Key   []byte
}

// PEM is the chain and the key in one file, as HAProxy takes them.
func (i Identity) PEM() []byte { return append(bytes.Clone(i.Chain), i.Key...) }

// NewAuthority makes a root.
func NewAuthority(name string) (*Authority, error) {
	a := &Authority{}
	template, err := authorityTemplate(name)
	if err != nil {
		return nil, err
	}
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("make the key of %s: %w", name, err)
	}
	a.certificate, err = sign(template, template, a.key, a.key)
	return a, err
}

// Intermediate makes a CA below this one.
func (a *Authority) Intermediate(name string) (*Authority, error) {
	below := &Authority{}
	template, err := authorityTemplate(name)
	if err != nil {
		return nil, err
	}
	if below.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("make the key of %s: %w", name, err)
	}
	if below.certificate, err = sign(template, a.certificate, below.key, a.key); err != nil {
		return nil, err
	}
	below.above = append([]*x509.Certificate{below.certificate}, a.above...)
	return below, nil
}

// Issue makes a server's certificate and its key.
func (a *Authority) Issue(l ServerCertificate) (Identity, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return Identity{}, fmt.Errorf("make a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "lab server"},
		DNSNames:     l.Names,
		NotBefore:    l.NotBefore,
		NotAfter:     l.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, address := range l.Addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.AsSlice()))
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(23 * time.Hour)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("make a server's key: %w", err)
	}
	leaf, err := sign(template, a.certificate, key, a.key)
	if err != nil {
		return Identity{}, err
	}
	out := Identity{Chain: encoded(leaf)}
	for _, c := range a.above {
		out.Chain = append(out.Chain, encoded(c)...)
	}
	out.Key, err = encodedKey(key)
	return out, err
}

// Certificate is the CA's own, in PEM.
func (a *Authority) Certificate() []byte { return encoded(a.certificate) }

// Identity is the CA's certificate and key, for who issues by itself.
func (a *Authority) Identity() (Identity, error) {
	key, err := encodedKey(a.key)
	return Identity{Chain: a.Certificate(), Key: key}, err
}

func authorityTemplate(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-48 * time.Hour),
		NotAfter:              time.Now().Add(48 * time.Hour),
		BasicConstraintsValid: true,
		IsCA:                  true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, nil
}

func sign(template, issuer *x509.Certificate, key, by *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, by)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", template.Subject, err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", template.Subject, err)
	}
	return c, nil
}

func encoded(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func encodedKey(key *ecdsa.PrivateKey) ([]byte, error) {
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}
