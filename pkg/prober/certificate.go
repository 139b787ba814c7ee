// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// APIPort is where an API server listens.
const APIPort = 6443

// CertificateRequest asks which certificate a TLS server presents.
type CertificateRequest struct {
	Addr netip.AddrPort `json:"addr"`
	// Name is what the server is called, and asked for by SNI. For an address, as for
	// none, nothing is asked for.
	Name string `json:"name"`
}

// Certificate is the leaf that a server has presented. Nothing of it is verified.
type Certificate struct {
	Issuer     string    `json:"issuer"` // its common name, or organisation: the network's own words
	Serial     string    `json:"serial"` // hexadecimal
	NotBefore  time.Time `json:"notBefore"`
	NotAfter   time.Time `json:"notAfter"`
	CoversName bool      `json:"covers"` // the name, or the address, is in the SAN
	Names      []string  `json:"names"`  // DNS names of the SAN that a host can have, the first 100
}

// MaxNames bounds the names of a [Certificate].
const MaxNames = 100

func (c *Certificate) sanitize() {
	c.Issuer = sanitizeLine(c.Issuer)
	c.Serial = c.Serial[:min(len(c.Serial), maxTextLength)]
	c.NotBefore, c.NotAfter = c.NotBefore.UTC(), c.NotAfter.UTC()
	// Not in place: crypto/tls gives equal certificates of several connections out as one.
	named := make([]string, 0, min(len(c.Names), MaxNames))
	for _, name := range c.Names {
		if len(named) < MaxNames && cause.IsHostname(name) {
			named = append(named, name)
		}
	}
	c.Names = named
}

func (c *Certificate) validate() error {
	hex := func(r rune) bool { return !strings.ContainsRune("-0123456789abcdef", r) }
	unnamed := func(name string) bool { return !cause.IsHostname(name) }
	if strings.ContainsFunc(c.Serial, hex) || slices.ContainsFunc(c.Names, unnamed) {
		return fmt.Errorf("%w: a certificate with a serial number or a name of other characters", cause.ErrInvalid)
	}
	// Beyond these years a report with it cannot be encoded.
	if year := c.NotAfter.UTC().Year(); c.NotBefore.UTC().Year() < 0 || year > 9999 {
		return fmt.Errorf("%w: a certificate of the year %d", cause.ErrInvalid, year)
	}
	return nil
}

const (
	// certificateTimeout bounds one look at a certificate.
	certificateTimeout = 5 * time.Second
	// As many as check asks servers, so that one round is enough for silent ones.
	maxConcurrentCertificates = 16
)

// CertificateResult is what a server presents to a question: a certificate, or an error.
type CertificateResult struct {
	CertificateRequest

	Certificate *Certificate
	Err         error
	CheckedAt   time.Time // when the answer came
}

// Certificates asks several questions side by side, each for 5 s at the longest.
func (c *Client) Certificates(ctx context.Context, questions []CertificateRequest) []CertificateResult {
	all := make([]CertificateResult, len(questions))
	var group errgroup.Group
	group.SetLimit(maxConcurrentCertificates)
	for i, q := range questions {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, certificateTimeout)
			defer cancel()
			a, err := c.Query(ctx, Request{Certificate: &q})
			all[i] = CertificateResult{CertificateRequest: q, Err: err, CheckedAt: time.Now()}
			if err == nil {
				all[i].Certificate = a.Certificate
			}
			return nil
		})
	}
	_ = group.Wait() // none of them returns an error
	return all
}
