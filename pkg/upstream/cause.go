// SPDX-License-Identifier: Apache-2.0

package upstream

import (
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
	LocalResources      Cause = "local-resources"        // this host lacks descriptors, ports or memory
	Stopped             Cause = "stopped"                // the client was closed meanwhile
)

// Causes that are read off a complete answer, which was passed on untouched.
const (
	NoRoute         Cause = "router-no-route"   // a 503, which is the router's own
	RedirectToHTTPS Cause = "redirect-to-https" // the router leads the validator away from port 80
	Loop            Cause = "loop"              // the router led the request back to a front door
)

// Causes is the set.
func Causes() []Cause {
	return []Cause{
		NoUpstream, Refused, ConnectTimeout, Unreachable, ClosedWithoutAnswer, Reset, AnswerTimeout, MalformedAnswer,
		AnswerTruncated, AnswerTooLarge, LocalResources, Stopped, NoRoute, RedirectToHTTPS, Loop,
	}
}

// Known reports whether the cause is of the set.
func (c Cause) Known() bool { return slices.Contains(Causes(), c) }

// PassedOn reports whether it is the upstream's own answer that the client got,
// rather than one that says what is wrong with the upstream.
func (c Cause) PassedOn() bool {
	return c == "" || c == NoRoute || c == RedirectToHTTPS || c == Loop
}

// Error is an exchange with a finding. It is returned for answers as well that
// were passed on but whose cause an operator wants to know.
type Error struct {
	Cause Cause
	Addr  netip.AddrPort // the zero value when no address is known
	// Status is what the client is to be answered with, 502 or 504; 0 when the
	// upstream's answer went to the client, all of it or until it broke off.
	Status int
	Err    error    // what the system or the parser said; nil for findings about a complete answer
	Also   []*Error // what the other addresses said that were asked afterwards
}

// Error names the address, the cause and what the system said.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("ask upstream %v: %s", e.Addr, e.Cause)
	}
	return fmt.Sprintf("ask upstream %v: %s: %v", e.Addr, e.Cause, e.Err)
}

// Unwrap returns what the system or the parser said.
func (e *Error) Unwrap() error { return e.Err }

// Label is the cause as text of a fixed set.
func (e *Error) Label() string { return string(e.Cause) }

// Cut reports whether an answer broke off after a part of it went to the
// client, which must then not take it for a whole one.
func (e *Error) Cut() bool {
	switch e.Cause {
	case NoRoute, RedirectToHTTPS, Loop:
		return false
	default:
		return e.Status == 0
	}
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
	case LocalResources, Stopped:
		reason = "the proxy could not ask the upstream"
	default:
		reason = "upstream sent a malformed answer"
	}
	return e.Status, reason
}

// Detail is the diagnosis and the mend for the operator, in one line.
func (e *Error) Detail() string {
	var b strings.Builder
	b.WriteString(e.Finding().String())
	for _, other := range e.Also {
		_, reason := other.Answer()
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
	return e.Cause.finding(e.Addr.String(), said)
}

func (c Cause) finding(who, said string) catalogue.Finding {
	return catalogue.Find(c.entry(), "upstream", who, "error", said)
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
	case isAny(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EAGAIN):
		e.Cause = LocalResources
	default:
		// ENETUNREACH and EHOSTUNREACH; EPERM and EACCES are a local firewall's.
		e.Cause = Unreachable
	}
	return e
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
	case errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE):
		e.Cause = ClosedWithoutAnswer
	default:
		e.Cause = Reset
	}
	return e
}

// isGone reports whether the peer had given up the connection, as a router does
// with one that was idle for too long.
func isGone(err error) bool {
	return errors.Is(err, io.EOF) || isAny(err, syscall.ECONNRESET, syscall.EPIPE)
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
