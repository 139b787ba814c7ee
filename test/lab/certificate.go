// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// selfSigned makes the certificate of the CA's own web server.
func selfSigned(addresses []netip.Addr) (certificate, key []byte, trust *x509.CertPool, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		BasicConstraintsValid: true,
		IsCA:                  true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, a := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(a.AsSlice()))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("sign the CA's web certificate: %w", err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("parse the CA's web certificate: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	trust = x509.NewCertPool()
	trust.AddCert(parsed)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), trust, nil
}

// roots fetches the root that the CA signs under; it is new with each lab.
func (i *Internet) roots(ctx context.Context) (*x509.CertPool, error) {
	url := "https://" + i.at(caManagementPort) + "/roots/0"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("build the request: %w", err)
	}
	answer, err := do(i.client, request)
	if err != nil {
		return nil, fmt.Errorf("fetch the CA's root: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(answer.Body)) {
		return nil, fmt.Errorf("fetch the CA's root: no certificate in the answer %d", answer.Status)
	}
	return pool, nil
}

// verify checks a chain as a browser would: name, dates, signatures up to the
// CA's root. It returns the leaf.
func (i *Internet) verify(ctx context.Context, chain [][]byte, name string) (*x509.Certificate, error) {
	if len(chain) == 0 {
		return nil, errors.New("the CA sent an empty chain")
	}
	roots, err := i.roots(ctx)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return nil, fmt.Errorf("parse the certificate: %w", err)
	}
	between := x509.NewCertPool()
	for _, der := range chain[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("parse the chain: %w", err)
		}
		between.AddCert(c)
	}
	_, err = leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: between})
	if err != nil {
		return nil, fmt.Errorf("verify the certificate: %w", err)
	}
	return leaf, nil
}
