// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// LookupRequest requests the addresses of a name from one DNS server.
type LookupRequest struct {
	Server netip.AddrPort `json:"server"`
	Name   string         `json:"name"` // absolute, with or without the final dot
	IPv6   bool           `json:"ipv6"` // AAAA instead of A
}

// LookupResult is the result of a [LookupRequest]: no addresses and no failure when the
// name does not exist, or has no address of the family.
type LookupResult struct {
	Addresses []netip.Addr  `json:"addresses"` // the first 16, sorted
	Failure   LookupFailure `json:"failure"`
}

// LookupFailure is the reason for a lookup without a result.
type LookupFailure string

// The failures.
const (
	ServerError  LookupFailure = "error"  // an error such as SERVFAIL or REFUSED
	ServerSilent LookupFailure = "silent" // no answer
)

// MaxAddresses bounds the addresses of a [LookupResult].
const MaxAddresses = 16

func (l *LookupResult) sanitize() {
	l.Addresses = l.Addresses[:min(len(l.Addresses), MaxAddresses)]
	for i, a := range l.Addresses {
		l.Addresses[i] = a.Unmap().WithZone("")
	}
}

func (l *LookupResult) validate() error {
	if l.Failure != "" && l.Failure != ServerError && l.Failure != ServerSilent {
		return fmt.Errorf("%w: unknown failure of a lookup", cause.ErrInvalid)
	}
	for _, addr := range l.Addresses {
		if err := cause.ValidateAddr(addr); err != nil {
			return err
		}
	}
	return nil
}
