// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// Root fetches the CA's root certificate in PEM, which is new in each lab.
func (i *Internet) Root(ctx context.Context) (string, error) {
	url := "https://" + i.at(caManagementPort) + "/roots/0"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("build the request: %w", err)
	}
	answer, err := do(i.client, request)
	if err != nil {
		return "", fmt.Errorf("fetch the CA's root: %w", err)
	}
	return answer.Body, nil
}

// roots returns a pool with the CA's root only.
func (i *Internet) roots(ctx context.Context) (*x509.CertPool, error) {
	root, err := i.Root(ctx)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(root)) {
		return nil, fmt.Errorf("fetch the CA's root: no certificate in the answer %q", root)
	}
	return pool, nil
}

// verify verifies a chain as a browser does: name, dates, and signatures up to the CA's
// root. It returns the leaf.
func (i *Internet) verify(ctx context.Context, chain [][]byte, name string) (*x509.Certificate, error) {
	certificates, err := x509.ParseCertificates(slices.Concat(chain...))
	if err != nil {
		return nil, fmt.Errorf("parse the chain: %w", err)
	}
	if len(certificates) == 0 {
		return nil, errors.New("the CA sent an empty chain")
	}
	roots, err := i.roots(ctx)
	if err != nil {
		return nil, err
	}
	between := x509.NewCertPool()
	for _, c := range certificates[1:] {
		between.AddCert(c)
	}
	_, err = certificates[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: between})
	if err != nil {
		return nil, fmt.Errorf("verify the certificate: %w", err)
	}
	return certificates[0], nil
}
