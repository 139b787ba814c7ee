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

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// fetchCertificate returns the certificate that a server presents. It sends no request
// over the connection, so that the server's identity does not matter.
func fetchCertificate(ctx context.Context, q *protocol.CertificateRequest) (*protocol.Certificate, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", q.Addr.String())
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", q.Addr, err)
	}
	defer conn.Close()
	// The certificate is the result, verified or not.
	secure := tls.Client(conn, &tls.Config{ServerName: q.Name, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // see above
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, upstream.ExplainTLS(err)
	}
	leaf := secure.ConnectionState().PeerCertificates[0]
	return &protocol.Certificate{
		Issuer: issuerName(leaf.Issuer), Serial: leaf.SerialNumber.Text(16),
		NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
		CoversName: q.Name != "" && leaf.VerifyHostname(q.Name) == nil,
		Names:      leaf.DNSNames,
	}, nil
}

// issuerName returns the name of an issuer: usually its common name.
func issuerName(n pkix.Name) string {
	return cmp.Or(n.CommonName, strings.Join(n.Organization, " "), n.String())
}
