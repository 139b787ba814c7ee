// SPDX-License-Identifier: Apache-2.0

package prober

import "net/netip"

// LookupRequest asks one DNS server for the addresses of a name.
type LookupRequest struct {
	Server netip.AddrPort `json:"server"`
	Name   string         `json:"name"` // absolute, with or without the dot at its end
	IPv6   bool           `json:"ipv6"` // AAAA rather than A
}

// LookupResult is what became of it: no addresses and no failure when the name has
// none of this family, or is not there.
type LookupResult struct {
	Addresses []netip.Addr  `json:"addresses"` // the first 16, sorted
	Failure   LookupFailure `json:"failure"`
}

// LookupFailure is why a server has not said what it knows.
type LookupFailure string

// The failures.
const (
	ServerError  LookupFailure = "fails"  // it answers with an error, such as SERVFAIL or REFUSED
	ServerSilent LookupFailure = "silent" // no answer comes
)

// MaxAddresses bounds the addresses of a [Lookup].
const MaxAddresses = 16

func (l *LookupResult) sanitize() {
	l.Addresses = l.Addresses[:min(len(l.Addresses), MaxAddresses)]
	for i, a := range l.Addresses {
		l.Addresses[i] = a.Unmap().WithZone("")
	}
	if l.Failure != "" && l.Failure != ServerError {
		l.Failure = ServerSilent
	}
}
