// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// fetchCertificate looks which certificate a server presents. It asks nothing over the
// connection, so that it does not matter whether the server is who it should be.
func fetchCertificate(ctx context.Context, q *prober.CertificateRequest) (*prober.Certificate, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", q.Addr.String())
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", q.Addr, err)
	}
	defer conn.Close()
	// What is presented is the question, whether or not it can be verified.
	secure := tls.Client(conn, &tls.Config{ServerName: q.Name, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // see above
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, upstream.ExplainTLS(err)
	}
	leaf := secure.ConnectionState().PeerCertificates[0]
	return &prober.Certificate{
		Issuer: issuerName(leaf.Issuer), Serial: leaf.SerialNumber.Text(16),
		NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
		CoversName: q.Name != "" && leaf.VerifyHostname(q.Name) == nil,
		Names:      leaf.DNSNames,
	}, nil
}

// issuerName is how an issuer is called: CAs have a common name as a rule.
func issuerName(n pkix.Name) string {
	return cmp.Or(n.CommonName, strings.Join(n.Organization, " "), n.String())
}
