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
	"slices"
	"strings"
	"syscall"

	"github.com/http01-proxyd/http01-proxyd/pkg/catalogue"
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

// PassedOn reports whether it is the upstream's own answer that the client got,
// rather than one that says what is wrong with the upstream.
func (c Cause) PassedOn() bool {
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
	Cause Cause
	Addr  netip.AddrPort // the zero value when no address is known
	Proxy string         // through which it was asked, or was to be; empty without one
	// Status is what the client is to be answered with, 502 or 504; 0 when the
	// upstream's answer went to the client, all of it or until it broke off.
	Status int
	Err    error    // what the system or the parser said; of a complete answer, where it leads, or nil
	Also   []*Error // what the other addresses said that were asked afterwards
}

// Error names the address, the cause and what the system said.
func (e *Error) Error() string {
	who := e.Addr.String()
	if e.Proxy != "" {
		who += " through " + e.Proxy
	}
	if e.Err == nil {
		return fmt.Sprintf("ask upstream %s: %s", who, e.Cause)
	}
	return fmt.Sprintf("ask upstream %s: %s: %v", who, e.Cause, e.Err)
}

// Unwrap returns what the system or the parser said.
func (e *Error) Unwrap() error { return e.Err }

// Label is the cause as text of a fixed set.
func (e *Error) Label() string { return string(e.Cause) }

// Cut reports whether an answer broke off after a part of it went to the
// client, which must then not take it for a whole one.
func (e *Error) Cut() bool {
	return !e.Cause.PassedOn() && e.Status == 0
}

// Answer is what to tell the client when no answer could be passed on: the
// status and one line that reveals no more than the cause.
func (e *Error) Answer() (status int, reason string) {
	switch e.Cause {
	case NoUpstream:
		reason = "no upstream is configured"
	case Refused:
		reason = "upstream refused the connection"
	case ConnectTimeout:
		reason = "upstream did not accept the connection in time"
	case Unreachable:
		reason = "upstream is unreachable"
	case ClosedWithoutAnswer:
		reason = "upstream closed the connection without an answer"
	case Reset:
		reason = "upstream reset the connection"
	case AnswerTimeout:
		reason = "upstream did not answer in time"
	case AnswerTruncated:
		reason = "upstream sent an incomplete answer"
	case AnswerTooLarge:
		reason = "upstream sent an answer that is too large"
	case TLSUntrusted:
		reason = "upstream presents a certificate that is not trusted"
	case TLSName:
		reason = "upstream presents a certificate for another name"
	case TLSExpired:
		reason = "upstream presents a certificate that is not valid now"
	case TLSHandshake:
		reason = "upstream failed the TLS handshake"
	case EgressUnreachable, EgressTLS:
		reason = "the egress proxy could not be asked"
	case EgressAuth, EgressDenied:
		reason = "the egress proxy did not let the request through"
	case LocalResources, Stopped:
		reason = "the proxy could not ask the upstream"
	default:
		reason = "upstream sent a malformed answer"
	}
	return e.Status, reason
}

// MaxDetail is the length that a diagnosis and its mend stay within, whatever the
// ingress and the egress proxy are called and say.
const MaxDetail = 2 << 10

// Detail is the diagnosis and the mend for the operator, in one line. What other
// addresses said comes last.
func (e *Error) Detail() string {
	var b strings.Builder
	b.WriteString(e.Finding().String())
	for _, other := range e.Also {
		_, reason := other.Answer()
		if other.Cause.egress() {
			fmt.Fprintf(&b, "; then, for %v, %s", other.Addr, reason)
			continue
		}
		fmt.Fprintf(&b, "; then %v %s", other.Addr, strings.TrimPrefix(reason, "upstream "))
	}
	return b.String()
}

// Finding is the catalogue's entry for it, with the mend for the operator.
func (e *Error) Finding() catalogue.Finding {
	said := ""
	if e.Err != nil {
		said = e.Err.Error()
	}
	who := e.Addr.String()
	if e.Proxy != "" && !e.Cause.egress() {
		who += " through the egress proxy " + e.Proxy
	}
	f := e.Cause.finding(who, said, e.Proxy)
	if e.Proxy != "" {
		return f.ThroughProxy()
	}
	return f
}

// egress holds for the causes whose entries name the proxy themselves.
func (c Cause) egress() bool {
	switch c {
	case EgressUnreachable, EgressTLS, EgressAuth, EgressDenied, EgressLoop:
		return true
	default:
		return false
	}
}

func (c Cause) finding(who, said, proxy string) catalogue.Finding {
	return catalogue.Find(c.entry(), "upstream", who, "error", said, "proxy", proxy)
}

// entry is the catalogue's for a cause.
func (c Cause) entry() catalogue.ID {
	if id, known := catalogue.OfCause(string(c)); known {
		return id
	}
	return catalogue.AnswerMalformed
}

// dialError tells the ways apart in which a connection attempt fails.
func dialError(addr netip.AddrPort, err error) *Error {
	e := &Error{Addr: addr, Status: 502, Err: cleanError(err)}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Cause = Refused
	case isTimeout(err), errors.Is(err, syscall.ETIMEDOUT):
		e.Cause, e.Status = ConnectTimeout, 504
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
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return &Error{Cause: refused.cause, Addr: addr, Status: 502, Err: refused}
	case !heard, isTimeout(err), errors.Is(err, net.ErrClosed):
		return talkError(addr, err, false)
	default:
		return &Error{Cause: TLSHandshake, Addr: addr, Status: 502, Err: tlsError(err)}
	}
}

// tlsError says what crypto/tls does in the words of an operator where these are
// clearer.
func tlsError(err error) error {
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/":
		return errors.New("it answers in plain HTTP")
	case errors.As(err, &record):
		return errors.New("what it says is not TLS")
	case isGone(err):
		return errors.New("it ended the connection in the middle")
	default:
		return errors.New(printable(strings.TrimPrefix(cleanError(err).Error(), "tls: "), 2*maxQuoted))
	}
}

// isAlert reports whether TLS has failed on a connection that was open: the router
// wants a certificate of its client, or goes on in plain text, for example.
func isAlert(err error) bool {
	var op *net.OpError
	var record tls.RecordHeaderError
	return errors.As(err, &record) || errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error")
}

// talkError tells the ways apart in which a connection fails that was
// accepted; got says whether a part of the answer had come.
func talkError(addr netip.AddrPort, err error, got bool) *Error {
	e := &Error{Addr: addr, Status: 502, Err: cleanError(err)}
	switch {
	case errors.Is(err, errTooLarge):
		e.Cause = AnswerTooLarge
	case errors.Is(err, errMalformed):
		e.Cause = MalformedAnswer
	case isTimeout(err):
		e.Cause, e.Status = AnswerTimeout, 504
	case errors.Is(err, net.ErrClosed):
		e.Cause = Stopped
	case got:
		e.Cause = AnswerTruncated
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		e.Cause = ClosedWithoutAnswer
	case isAlert(err):
		e.Cause, e.Err = TLSHandshake, tlsError(err)
	default:
		e.Cause = Reset
	}
	return e
}

// isGone reports whether the peer had given up the connection, as a router does
// with one that was idle for too long.
func isGone(err error) bool {
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

// cleanError cuts the addresses off that the net package puts before the cause:
// ours are named once, where they belong.
func cleanError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
