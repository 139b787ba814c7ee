// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// certificate is a web server's, and the CA that has signed it.
type certificate struct {
	leaf  tls.Certificate
	ca    []byte // in PEM
	trust *x509.CertPool
}

// issue makes a CA and a certificate of it for one name.
func issue(name string) (*certificate, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of the registry's CA: %w", err)
	}
	root := template(1, "CA of "+name)
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of the registry's CA: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the registry's key: %w", err)
	}
	leaf := template(2, name)
	leaf.DNSNames = []string{name}
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, &key.PublicKey, caKey)
	if err != nil {
		return nil, fmt.Errorf("sign the registry's certificate: %w", err)
	}
	c := &certificate{
		leaf:  tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key},
		ca:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER}),
		trust: x509.NewCertPool(),
	}
	c.trust.AppendCertsFromPEM(c.ca)
	return c, nil
}

func template(serial int64, subject string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: subject},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}
