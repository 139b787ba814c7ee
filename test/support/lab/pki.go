// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Authority is a CA of the lab: a root or an intermediate.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	above       []*x509.Certificate // intermediates from this one upwards, without the root
}

// ServerCertificate describes a server certificate. With zero times it is valid for a day
// around now.
type ServerCertificate struct {
	Names     []string
	Addresses []netip.Addr
	NotBefore time.Time
	NotAfter  time.Time
}

// Identity holds the certificate chain and key of a TLS server in PEM.
type Identity struct {
	Chain []byte // the leaf and the intermediates
	Key   []byte
}

// PEM returns the chain and the key in one file for HAProxy.
func (i Identity) PEM() []byte { return append(bytes.Clone(i.Chain), i.Key...) }

// TLS returns the identity for crypto/tls.
func (i Identity) TLS() (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(i.Chain, i.Key)
	return &pair, err
}

// NewAuthority creates a root that is valid for two days.
func NewAuthority(name string) (*Authority, error) {
	return NewAuthorityUntil(name, time.Now().Add(48*time.Hour))
}

// NewAuthorityUntil creates a root that expires at the given time.
func NewAuthorityUntil(name string, end time.Time) (*Authority, error) {
	return (*Authority)(nil).sign(authorityTemplate(name, end))
}

// Intermediate creates a CA below this one.
func (a *Authority) Intermediate(name string) (*Authority, error) {
	below, err := a.sign(authorityTemplate(name, a.certificate.NotAfter))
	if err == nil {
		below.above = append([]*x509.Certificate{below.certificate}, a.above...)
	}
	return below, err
}

// Issue creates a server certificate and its key.
func (a *Authority) Issue(l ServerCertificate) (Identity, error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "lab server"},
		DNSNames:  l.Names,
		NotBefore: l.NotBefore,
		NotAfter:  l.NotAfter,
		KeyUsage:  x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
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
	leaf, err := a.sign(template)
	if err != nil {
		return Identity{}, err
	}
	out, err := leaf.Identity()
	for _, c := range a.above {
		out.Chain = append(out.Chain, encoded(c)...)
	}
	return out, err
}

// Issue creates a certificate of a new CA with the issuer's name. left of its lifetime
// remains.
func Issue(issuer string, lifetime, left time.Duration, names ...string) (*tls.Certificate, error) {
	ca, err := NewAuthority(issuer)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(left)
	identity, err := ca.Issue(ServerCertificate{Names: names, NotBefore: end.Add(-lifetime), NotAfter: end})
	if err != nil {
		return nil, err
	}
	return identity.TLS()
}

// Certificate returns the CA's certificate in PEM.
func (a *Authority) Certificate() []byte { return encoded(a.certificate) }

// Bundle returns the certificates of CAs in PEM.
func Bundle(authorities ...*Authority) (text []byte) {
	for _, a := range authorities {
		text = append(text, a.Certificate()...)
	}
	return text
}

// Pool returns a pool with this CA only.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Identity returns the CA's certificate and key for a program that issues certificates.
func (a *Authority) Identity() (Identity, error) {
	return newIdentity([][]byte{a.certificate.Raw}, a.key)
}

// newIdentity encodes a chain of certificates in DER and the key of the first one.
func newIdentity(chain [][]byte, key *ecdsa.PrivateKey) (Identity, error) {
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Identity{}, fmt.Errorf("encode a key: %w", err)
	}
	i := Identity{Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})}
	for _, der := range chain {
		i.Chain = append(i.Chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return i, nil
}

func authorityTemplate(name string, end time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             end.Add(-96 * time.Hour),
		NotAfter:              end,
		BasicConstraintsValid: true,
		IsCA:                  true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

// sign creates a key and its certificate. Without a CA the certificate is self-signed.
func (a *Authority) sign(template *x509.Certificate) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create the key of %s: %w", template.Subject, err)
	}
	issuer, by := template, key
	if a != nil {
		issuer, by = a.certificate, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, by)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", template.Subject, err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", template.Subject, err)
	}
	return &Authority{certificate: c, key: key}, nil
}

func encoded(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}
