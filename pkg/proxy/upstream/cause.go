// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// Error is an exchange with a cause. It is also returned for a forwarded response
// with a cause that an operator should know.
type Error struct {
	Cause       findings.ID    // of the finding about what went wrong
	Addr        netip.AddrPort // the zero value if no address is known
	EgressProxy string         // the egress proxy of the route; empty: none
	// ClientStatus is the status for the client, 502 or 504. It is 0 when the
	// client gets the upstream's response.
	ClientStatus int
	Err          error    // of the system or the parser; for a complete response the destination of its redirect, or nil
	Others       []*Error // the errors of the addresses that were tried afterwards
}

// Error implements error, for tests: the controller renders what an operator reads.
func (e *Error) Error() string { return fmt.Sprintf("upstream %s: %s: %v", e.Addr, e.Cause, e.Err) }

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// Forwarded reports whether the client got the upstream's own response.
func (e *Error) Forwarded() bool {
	f, _ := findings.Lookup(e.Cause)
	return f.Forwarded()
}

// Failure is the error as this process reports it to the controller, which renders
// the sentence. Of what came from the network, it contains only checked values.
func (e *Error) Failure() cause.Failure {
	f := cause.Failure{
		Cause: string(e.Cause), Addr: cause.WithoutZone(e.Addr), ViaProxy: e.EgressProxy != "", Details: Explain(e.Err),
	}
	for _, other := range e.Others[:min(len(e.Others), cause.MaxOthers)] {
		f.Others = append(f.Others, cause.OtherFailure{Cause: string(other.Cause), Addr: cause.WithoutZone(other.Addr)})
	}
	return f
}

// DialError classifies the error of a connection attempt.
func DialError(addr netip.AddrPort, err error) *Error {
	e := &Error{Addr: addr, ClientStatus: 502, Err: withoutAddresses(err)}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Cause = findings.IngressRefused
	case cause.IsTimeout(err), errors.Is(err, syscall.ETIMEDOUT):
		e.Cause, e.ClientStatus = findings.IngressTimeout, 504
	case errors.Is(err, syscall.ECONNRESET):
		e.Cause = findings.IngressResetConnection
	case isAny(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.EADDRNOTAVAIL, syscall.EADDRINUSE, syscall.EAGAIN):
		e.Cause = findings.LocalResources
	default:
		// ENETUNREACH and EHOSTUNREACH; a local firewall causes EPERM and EACCES.
		e.Cause = findings.IngressUnreachable
	}
	return e
}

// handshakeError classifies the error of a TLS handshake. received means that the
// peer sent something.
func handshakeError(addr netip.AddrPort, err error, received bool) *Error {
	var rejected *Error // of verify
	switch {
	case errors.As(err, &rejected):
		rejected.Addr = addr
		return rejected
	case !received, cause.IsTimeout(err), errors.Is(err, net.ErrClosed):
		return ExchangeError(addr, err, false)
	default:
		return &Error{Cause: findings.IngressTLSHandshake, Addr: addr, ClientStatus: 502, Err: ExplainTLS(err)}
	}
}

// Explain returns an error as typed parameters: an error of package cause, of the
// system, or of TLS.
func Explain(err error) cause.Details {
	var own cause.Details
	if details, ok := tlsDetails(err); ok && !errors.As(err, &own) {
		return details
	}
	return cause.DetailsOf(err)
}

// ExplainTLS returns why a handshake failed, or TLS after it.
func ExplainTLS(err error) cause.Details {
	details, ok := tlsDetails(err)
	switch {
	case ok:
		return details
	case isConnectionLost(err):
		return cause.Details{Reason: cause.UnexpectedEndOfStream}
	case strings.Contains(err.Error(), "unsupported protocol version"): // crypto/tls defines no type for it
		return cause.Details{Reason: cause.TLSVersion}
	}
	if details = cause.DetailsOf(err); details.Reason == cause.Unknown {
		details.Reason = cause.TLSFailed
	}
	return details
}

// tlsDetails returns an error of TLS on an open connection. For example, the router
// requires a client certificate, or continues in plain text.
func tlsDetails(err error) (details cause.Details, ok bool) {
	var record tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/":
		return cause.Details{Reason: cause.PlainHTTP}, true
	case errors.As(err, &record):
		return cause.Details{Reason: cause.NotTLS}, true
	case !errors.As(err, &op), op.Op != "remote error" && op.Op != "local error",
		reflect.ValueOf(op.Err).Kind() != reflect.Uint8:
		return cause.Details{}, false
	default: // an alert, for which crypto/tls exports no type
		alert := int(reflect.ValueOf(op.Err).Uint()) //nolint:gosec // 8 bits
		return cause.Details{Reason: cause.Alert, Number: alert}, true
	}
}

// ExchangeError classifies the error of an accepted connection. received means that a part of
// the response arrived.
func ExchangeError(addr netip.AddrPort, err error, received bool) *Error {
	e := &Error{Addr: addr, ClientStatus: 502, Err: withoutAddresses(err)}
	switch {
	case errors.Is(err, ErrTooLarge):
		e.Cause = findings.ResponseTooLarge
	case errors.Is(err, errMalformed):
		e.Cause = findings.ResponseMalformed
	case errors.Is(err, syscall.ENOBUFS):
		e.Cause = findings.LocalResources
	case cause.IsTimeout(err):
		e.Cause, e.ClientStatus = findings.IngressNoResponse, 504
	case errors.Is(err, net.ErrClosed):
		e.Cause = findings.ExchangeStopped
	case received:
		e.Cause = findings.ResponseTruncated
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		e.Cause = findings.IngressClosedConnection
	default:
		e.Cause = findings.IngressResetConnection
		if details, ok := tlsDetails(err); ok {
			e.Cause, e.Err = findings.IngressTLSHandshake, details
		}
	}
	return e
}

// GivenUp is an exchange that ended early because others needed its slot.
func GivenUp(addr netip.AddrPort) *Error {
	return &Error{Cause: findings.ExchangeGivenUp, Addr: addr, ClientStatus: 504}
}

// IsRepeatable reports whether a request is sent again that got no byte on a kept connection:
// the peer or the path failed, and neither the deadline nor this process ended it. The path
// ends with ETIMEDOUT, or the error of an ICMP message or of the local route
// (net/ipv4/tcp_timer.c, tcp_write_err).
func IsRepeatable(err error) bool {
	return !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed)
}

func isConnectionLost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isAny(err, syscall.ECONNRESET, syscall.EPIPE)
}

func isAny(err error, numbers ...syscall.Errno) bool {
	return slices.ContainsFunc(numbers, func(n syscall.Errno) bool { return errors.Is(err, n) })
}

// withoutAddresses removes the addresses that package net puts before the reason.
// The caller adds the address once.
func withoutAddresses(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
