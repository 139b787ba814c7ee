// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// CertificateRequest requests the certificate that a TLS server presents.
type CertificateRequest struct {
	Addr netip.AddrPort `json:"addr"`
	// Name is the server name to send by SNI, and to look for in the certificate. No
	// SNI is sent for an address or an empty name.
	Name string `json:"name"`
}

// Certificate is the leaf certificate that a server presented. Nothing of it is verified.
type Certificate struct {
	Issuer     string    `json:"issuer"` // common name, or organization: text of the network
	Serial     string    `json:"serial"` // hexadecimal
	NotBefore  time.Time `json:"notBefore"`
	NotAfter   time.Time `json:"notAfter"`
	CoversName bool      `json:"coversName"` // the SAN contains the name or the address
	Names      []string  `json:"names"`      // valid DNS names of the SAN, the first 100
}

// MaxNames bounds the names of a [Certificate].
const MaxNames = 100

func (c *Certificate) sanitize() {
	c.Issuer = printable.Truncate(c.Issuer, maxText)
	c.Serial = c.Serial[:min(len(c.Serial), maxText)]
	c.NotBefore, c.NotAfter = c.NotBefore.UTC(), c.NotAfter.UTC()
	// A new slice: crypto/tls shares equal certificates between connections.
	names := make([]string, 0, min(len(c.Names), MaxNames))
	for _, name := range c.Names {
		if len(names) < MaxNames && cause.IsHostname(name) {
			names = append(names, name)
		}
	}
	c.Names = names
}

func (c *Certificate) validate() error {
	notHex := func(r rune) bool { return !strings.ContainsRune("-0123456789abcdef", r) }
	invalid := func(name string) bool { return !cause.IsHostname(name) }
	if strings.ContainsFunc(c.Serial, notHex) || slices.ContainsFunc(c.Names, invalid) {
		return fmt.Errorf("%w: certificate with an invalid serial number or name", cause.ErrInvalid)
	}
	// A report with a later year cannot be encoded.
	if year := c.NotAfter.UTC().Year(); c.NotBefore.UTC().Year() < 0 || year > 9999 {
		return fmt.Errorf("%w: certificate of the year %d", cause.ErrInvalid, year)
	}
	return nil
}
