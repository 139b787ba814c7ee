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

// Cause is what went wrong at the upstream. The set is fixed, so that it can
// label a counter.
type Cause string

// Causes of an exchange without a usable answer.
const (
	NoUpstream          Cause = "no-upstream-for-family" // no ingress address is known
	Refused             Cause = "refused"                // nothing listens there
	ConnectTimeout      Cause = "timeout-connect"        // no reply to the connection attempt
	Unreachable         Cause = "unreachable"            // no way there, or a firewall says so
	ClosedWithoutAnswer Cause = "closed-without-answer"  // accepted the connection, closed it before the first byte
	Reset               Cause = "reset"                  // reset the connection
	AnswerTimeout       Cause = "timeout-answer"         // accepted the connection, did not answer in time
	MalformedAnswer     Cause = "malformed-answer"       // what came is not one HTTP/1.x answer
	AnswerTruncated     Cause = "answer-truncated"       // the answer broke off
	AnswerTooLarge      Cause = "answer-too-large"       // its body is larger than any key authorisation
	TLSUntrusted        Cause = "tls-untrusted"          // its certificate leads to none that is trusted
	TLSName             Cause = "tls-name"               // its certificate is for other names
	TLSExpired          Cause = "tls-expired"            // its certificate, or one that it leads to, is not valid now
	TLSHandshake        Cause = "tls-handshake"          // speaks no TLS, or none that both sides know
	LocalResources      Cause = "local-resources"        // this host lacks descriptors, ports or memory
	Stopped             Cause = "stopped"                // the client was closed meanwhile
)

// Causes of an exchange that the egress proxy kept from the ingress.
const (
	EgressUnreachable Cause = "egress-unreachable" // no connection to the proxy, or it ended before it answered
	EgressTLS         Cause = "egress-tls"         // TLS to the proxy itself fails
	EgressAuth        Cause = "egress-auth"        // it wants credentials, or others: 407
	EgressDenied      Cause = "egress-denied"      // it lets the request not through, or did not reach the ingress
)

// Causes that are read off a complete answer, which was passed on untouched.
const (
	NoRoute           Cause = "router-no-route"    // a 503, which is the router's own
	RedirectToHTTPS   Cause = "redirect-to-https"  // the same by https, which was not to be followed
	RedirectLoop      Cause = "redirect-loop"      // the same by https, again and again
	RedirectElsewhere Cause = "redirect-elsewhere" // to anything else
	Loop              Cause = "loop"               // the router led the request back to a front door

	ProxyProtocolUnexpected Cause = "proxy-protocol-unexpected" // a 400 while each connection begins with its header
	EgressLoop              Cause = "egress-loop"               // the egress proxy asked a front door: it finds the API VIP under the name
)

// Causes is the set.
func Causes() []Cause {
	return []Cause{
		NoUpstream, Refused, ConnectTimeout, Unreachable, ClosedWithoutAnswer, Reset, AnswerTimeout, MalformedAnswer,
		AnswerTruncated, AnswerTooLarge, TLSUntrusted, TLSName, TLSExpired, TLSHandshake, LocalResources, Stopped,
		NoRoute, RedirectToHTTPS, RedirectLoop, RedirectElsewhere, Loop,
		ProxyProtocolUnexpected, EgressUnreachable, EgressTLS, EgressAuth, EgressDenied, EgressLoop,
	}
}

// Known reports whether the cause is of the set.
func (c Cause) Known() bool { return slices.Contains(Causes(), c) }

// IsForwarded reports whether it is the upstream's own answer that the client got,
// rather than one that says what is wrong with the upstream.
func (c Cause) IsForwarded() bool {
	switch c {
	case "", NoRoute, RedirectToHTTPS, RedirectLoop, RedirectElsewhere, Loop, ProxyProtocolUnexpected, EgressLoop:
		return true
	default:
		return false
	}
}

// Error is an exchange with a finding. It is returned for answers as well that
// were passed on but whose cause an operator wants to know.
type Error struct {
	Cause       Cause
	Addr        netip.AddrPort // the zero value when no address is known
	EgressProxy string         // through which it was asked, or was to be; empty without one
	// Status is what the client is to be answered with, 502 or 504; 0 when the
	// upstream's answer went to the client, all of it or until it broke off.
	ClientStatus int
	Err          error    // what the system or the parser said; of a complete answer, where it leads, or nil
	Others       []*Error // what the other addresses said that were asked afterwards
}

// Error names the address, the cause and what the system said.
func (e *Error) Error() string {
	who := e.Addr.String()
	if e.EgressProxy != "" {
		who += " through " + e.EgressProxy
	}
	if e.Err == nil {
		return fmt.Sprintf("ask upstream %s: %s", who, e.Cause)
	}
	return fmt.Sprintf("ask upstream %s: %s: %v", who, e.Cause, e.Err)
}

// Unwrap returns what the system or the parser said.
func (e *Error) Unwrap() error { return e.Err }

// Label is the cause as text of a fixed set.
func (e *Error) CauseID() string { return string(e.Cause) }

// Cut reports whether an answer broke off after a part of it went to the
// client, which must then not take it for a whole one.
func (e *Error) Truncated() bool {
	return !e.Cause.IsForwarded() && e.ClientStatus == 0
}

// Answer is what to tell the client when no answer could be passed on: the
// status and one line that reveals no more than the cause.
func (e *Error) ClientAnswer() (status int, reason string) {
	return e.ClientStatus, findings.ReplyForCause(string(e.Cause))
}

// Failure is the finding as it is reported to the process that writes its sentence:
// what came from the network is in it only as far as that can be checked.
func (e *Error) Failure() cause.Failure {
	f := cause.Failure{Cause: string(e.Cause), Addr: cause.WithoutZone(e.Addr), ViaProxy: e.EgressProxy != "", Details: Explain(e.Err)}
	for _, other := range e.Others[:min(len(e.Others), cause.MaxOthers)] {
		f.Others = append(f.Others, cause.OtherFailure{Cause: string(other.Cause), Addr: cause.WithoutZone(other.Addr)})
	}
	return f
}

// dialError tells the ways apart in which a connection attempt fails.
func dialError(addr netip.AddrPort, err error) *Error {
	e := &Error{Addr: addr, ClientStatus: 502, Err: withoutAddresses(err)}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Cause = Refused
	case isTimeout(err), errors.Is(err, syscall.ETIMEDOUT):
		e.Cause, e.ClientStatus = ConnectTimeout, 504
	case errors.Is(err, syscall.ECONNRESET):
		e.Cause = Reset
	case isAny(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE, syscall.EAGAIN):
		e.Cause = LocalResources
	default:
		// ENETUNREACH and EHOSTUNREACH; EPERM and EACCES are a local firewall's.
		e.Cause = Unreachable
	}
	return e
}

// handshakeError tells the ways apart in which TLS does not come about; heard says
// whether the other side has said anything.
func handshakeError(addr netip.AddrPort, err error, heard bool) *Error {
	var refused *certificateRefusal
	switch {
	case errors.As(err, &refused):
		return &Error{Cause: refused.cause, Addr: addr, ClientStatus: 502, Err: refused}
	case !heard, isTimeout(err), errors.Is(err, net.ErrClosed):
		return exchangeError(addr, err, false)
	default:
		return &Error{Cause: TLSHandshake, Addr: addr, ClientStatus: 502, Err: ExplainTLS(err)}
	}
}

// Explain is what an error says in typed parameters: of package failure, of the system,
// or of TLS.
func Explain(err error) cause.Details {
	var own cause.Details
	var record tls.RecordHeaderError
	switch number, is := alertNumber(err); {
	case errors.As(err, &own):
		return own
	case is:
		return cause.Details{Reason: cause.Alert, Number: number}
	case errors.As(err, &record):
		return ExplainTLS(err)
	}
	return cause.DetailsOf(err)
}

// ExplainTLS says why a handshake, or TLS after it, has failed.
func ExplainTLS(err error) cause.Details {
	var record tls.RecordHeaderError
	number, is := alertNumber(err)
	switch {
	case is:
		return cause.Details{Reason: cause.Alert, Number: number}
	case errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/":
		return cause.Details{Reason: cause.PlainHTTP}
	case errors.As(err, &record):
		return cause.Details{Reason: cause.NotTLS}
	case isConnectionLost(err):
		return cause.Details{Reason: cause.UnexpectedEndOfStream}
	case strings.Contains(err.Error(), "unsupported protocol version"): // of crypto/tls, which has no type for it
		return cause.Details{Reason: cause.TLSVersion}
	}
	if why := cause.DetailsOf(err); why.Reason != cause.Unknown {
		return why
	}
	return cause.Details{Reason: cause.TLSFailed}
}

// alertNumber is the number of a TLS alert, for which crypto/tls exports no type.
func alertNumber(err error) (number int, is bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" && op.Op != "local error" || op.Err == nil {
		return 0, false
	}
	v := reflect.ValueOf(op.Err)
	if v.Kind() != reflect.Uint8 {
		return 0, false
	}
	return int(v.Uint()), true //nolint:gosec // 8 bits
}

// isTLSError reports whether TLS has failed on a connection that was open: the router
// wants a certificate of its client, or goes on in plain text, for example.
func isTLSError(err error) bool {
	var op *net.OpError
	var record tls.RecordHeaderError
	return errors.As(err, &record) || errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error")
}

// exchangeError tells the ways apart in which a connection fails that was
// accepted; got says whether a part of the answer had come.
func exchangeError(addr netip.AddrPort, err error, got bool) *Error {
	e := &Error{Addr: addr, ClientStatus: 502, Err: withoutAddresses(err)}
	switch {
	case errors.Is(err, errTooLarge):
		e.Cause = AnswerTooLarge
	case errors.Is(err, errMalformed):
		e.Cause = MalformedAnswer
	case isTimeout(err):
		e.Cause, e.ClientStatus = AnswerTimeout, 504
	case errors.Is(err, net.ErrClosed):
		e.Cause = Stopped
	case got:
		e.Cause = AnswerTruncated
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		e.Cause = ClosedWithoutAnswer
	case isTLSError(err):
		e.Cause, e.Err = TLSHandshake, ExplainTLS(err)
	default:
		e.Cause = Reset
	}
	return e
}

// isConnectionLost reports whether the peer had given up the connection, as a router does
// with one that was idle for too long.
func isConnectionLost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isAny(err, syscall.ECONNRESET, syscall.EPIPE)
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) || os.IsTimeout(err) }

func isAny(err error, numbers ...syscall.Errno) bool {
	for _, number := range numbers {
		if errors.Is(err, number) {
			return true
		}
	}
	return false
}

// withoutAddresses cuts the addresses off that the net package puts before the cause:
// ours are named once, where they belong.
func withoutAddresses(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
