// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
)

// APIPort is where an API server listens.
const APIPort = 6443

// CertificateQuestion asks which certificate a TLS server presents.
type CertificateQuestion struct {
	Addr netip.AddrPort `json:"addr"`
	// Name is what the server is called, and asked for by SNI. For an address, as for
	// none, nothing is asked for.
	Name string `json:"name"`
}

// Certificate is the leaf that a server has presented. Nothing of it is verified.
type Certificate struct {
	Issuer    string    `json:"issuer"` // its common name, or organisation
	Serial    string    `json:"serial"` // hexadecimal
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
	Covers    bool      `json:"covers"` // the name, or the address, is in the SAN
	Names     []string  `json:"names"`  // DNS names of the SAN, the first 100
}

// MaxNames bounds the names of a [Certificate].
const MaxNames = 100

func (c *Certificate) tame() {
	c.Issuer, c.Serial = line(c.Issuer), line(c.Serial)
	c.Names = c.Names[:min(len(c.Names), MaxNames)]
	for i := range c.Names {
		c.Names[i] = line(c.Names[i])
	}
}

const (
	// certificateTimeout bounds one look at a certificate.
	certificateTimeout = 5 * time.Second
	// As many as check asks servers, so that one round is enough for silent ones.
	certificatesAtOnce = 16
)

// Presented is what a server presents to a question: a certificate, or an error.
type Presented struct {
	CertificateQuestion

	Certificate *Certificate
	Err         error
	Checked     time.Time // when the answer came
}

// Certificates asks several questions side by side, each for 5 s at the longest.
func (c *Client) Certificates(ctx context.Context, questions []CertificateQuestion) []Presented {
	all := make([]Presented, len(questions))
	var group errgroup.Group
	group.SetLimit(certificatesAtOnce)
	for i, q := range questions {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, certificateTimeout)
			defer cancel()
			a, err := c.Ask(ctx, Question{Certificate: &q}, -1)
			all[i] = Presented{CertificateQuestion: q, Err: err, Checked: time.Now()}
			if err == nil {
				all[i].Certificate = a.Certificate
			}
			return nil
		})
	}
	_ = group.Wait() // none of them returns an error
	return all
}
