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

// ClockRequest requests the time of an NTP server.
type ClockRequest struct {
	Addr netip.AddrPort `json:"addr"`
}

// ClockResult is the result of a [ClockRequest].
type ClockResult struct {
	Offset time.Duration `json:"offset"` // time of the server less the time of this host
}

// EndpointRequest requests a URL, usually through an egress proxy. Both URLs may contain
// credentials and must never be printed.
type EndpointRequest struct {
	URL   string           `json:"url"`
	Proxy string           `json:"proxy"` // empty: no proxy
	Addrs []netip.AddrPort `json:"addrs"` // of the proxy, or of the URL's host: tried in order
	Roots [][]byte         `json:"roots"` // DER: trusted for TLS, with the proxy too
}

// Format prints no URL, whatever the verb is.
func (q EndpointRequest) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "endpoint request to %v with %d CAs", q.Addrs, len(q.Roots))
}

// EndpointResult is the result of an [EndpointRequest].
type EndpointResult struct {
	Status      int            `json:"status"`           // of the answer; 0: no answer
	ProxyStatus int            `json:"proxyStatus"`      // with which the proxy rejected CONNECT; 0: not rejected
	LastAddr    netip.AddrPort `json:"lastAddr"`         // the last address tried
	Details     cause.Details  `json:"details,omitzero"` // why there was no answer
	Total       time.Duration  `json:"total"`
}

func (r *EndpointResult) sanitize() {
	r.Status, r.ProxyStatus = validStatus(r.Status), validStatus(r.ProxyStatus)
	r.Total = max(0, r.Total)
}

// OK reports whether OpenShift's cluster-network-operator would accept the answer
// (runHTTPReadinessProbe of pkg/controller/proxyconfig/validation.go): 2xx or 3xx.
func (r *EndpointResult) OK() bool { return r.Status >= 200 && r.Status < 400 }

// LookupRequest requests the addresses of a name from one DNS server.
type LookupRequest struct {
	Server netip.AddrPort `json:"server"`
	Name   string         `json:"name"` // absolute, with or without the final dot
}

// LookupResult is the result of a [LookupRequest].
type LookupResult struct {
	Records [2]Record `json:"records"` // A, AAAA
}

// Record is the answer about one address family: no addresses and no failure if the name does
// not exist, or not in this family.
type Record struct {
	Addresses []netip.Addr  `json:"addresses"` // the first 16, sorted
	Failure   LookupFailure `json:"failure"`
}

// LookupFailure is the reason for a lookup without a result.
type LookupFailure string

// The failures.
const (
	ServerError  LookupFailure = "error"  // an error such as SERVFAIL or REFUSED
	ServerBogus  LookupFailure = "bogus"  // an error, and an answer to a query without DNSSEC validation
	ServerSilent LookupFailure = "silent" // no answer
)

// MaxAddresses bounds the addresses of a [Record].
const MaxAddresses = 16

func (l *LookupResult) sanitize() {
	for i := range l.Records {
		r := &l.Records[i]
		r.Addresses = r.Addresses[:min(len(r.Addresses), MaxAddresses)]
		for j, a := range r.Addresses {
			r.Addresses[j] = a.Unmap().WithZone("")
		}
	}
}

func (l *LookupResult) validate() error {
	failures := []LookupFailure{"", ServerError, ServerBogus, ServerSilent}
	for _, r := range l.Records {
		if !slices.Contains(failures, r.Failure) {
			return fmt.Errorf("%w: unknown failure of a lookup", cause.ErrInvalid)
		}
		for _, addr := range r.Addresses {
			if err := cause.ValidateAddr(addr); err != nil {
				return err
			}
		}
	}
	return nil
}
