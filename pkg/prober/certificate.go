// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// APIPort is the port of an API server.
const APIPort = 6443

const (
	// certificateTimeout bounds one handshake.
	certificateTimeout = 5 * time.Second
	// check requests as many certificates: one round suffices when servers are silent.
	maxConcurrentCertificates = 16
)

// CertificateResult is the result of a request: a certificate or an error.
type CertificateResult struct {
	protocol.CertificateRequest

	Certificate *protocol.Certificate
	Err         error
	CheckedAt   time.Time // time of the response
}

// Certificates sends several requests concurrently, each with a timeout of 5 s.
func (c *Client) Certificates(ctx context.Context, requests []protocol.CertificateRequest) []CertificateResult {
	results := make([]CertificateResult, len(requests))
	var group errgroup.Group
	group.SetLimit(maxConcurrentCertificates)
	for i, q := range requests {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, certificateTimeout)
			defer cancel()
			r, err := c.Query(ctx, protocol.Request{Certificate: &q})
			results[i] = CertificateResult{CertificateRequest: q, Err: err, CheckedAt: time.Now()}
			if err == nil {
				results[i].Certificate = r.Certificate
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	return results
}
