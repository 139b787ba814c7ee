// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net/netip"
	"time"
)

// Question is one that the child answers by itself: one field is set.
type Question struct {
	ID     uint64        `json:"id"`
	Budget time.Duration `json:"budget"` // the whole of it

	Certificate *CertificateQuestion `json:"certificate,omitempty"`
}

// Answer answers the question with the same ID: Error or the field of the same
// name is set. Its texts come from the network: [Client.Ask] makes each a bounded
// line without control characters.
type Answer struct {
	ID    uint64 `json:"id"`
	Error string `json:"error,omitempty"` // why there is no answer, in one line

	Certificate *Certificate `json:"certificate,omitempty"`
}

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
	Names     []string     `json:"names"`     // DNS names of the SAN, the first 100
	Addresses []netip.Addr `json:"addresses"` // IP addresses of the SAN, the first 100
}

// MaxNames bounds the names and the addresses of a [Certificate].
const MaxNames = 100
