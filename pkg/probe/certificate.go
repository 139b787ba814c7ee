// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net/netip"
	"time"
)

// CertificateQuestion asks which certificate a TLS server presents.
type CertificateQuestion struct {
	Addr netip.AddrPort `json:"addr"`
	Name string         `json:"name"` // asked for by SNI; empty: none
}

// Certificate is the leaf that a server has presented. Nothing of it is verified.
type Certificate struct {
	Subject   string       `json:"subject"` // its common name
	Issuer    string       `json:"issuer"`  // its common name, or organisation
	Serial    string       `json:"serial"`  // hexadecimal
	NotBefore time.Time    `json:"notBefore"`
	NotAfter  time.Time    `json:"notAfter"`
	Covers    bool         `json:"covers"`    // the name that was asked for is in the SAN
	Names     []string     `json:"names"`     // DNS names of the SAN, the first 100
	Addresses []netip.Addr `json:"addresses"` // IP addresses of the SAN, the first 100
}

// MaxNames bounds the names and the addresses of a [Certificate].
const MaxNames = 100

func (c *Certificate) tame() {
	c.Subject, c.Issuer, c.Serial = line(c.Subject), line(c.Issuer), line(c.Serial)
	c.Names = c.Names[:min(len(c.Names), MaxNames)]
	for i := range c.Names {
		c.Names[i] = line(c.Names[i])
	}
	c.Addresses = c.Addresses[:min(len(c.Addresses), MaxNames)]
}
