// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// proxyRefusal is what the egress proxy itself has answered, instead of doing what
// it was asked for.
type proxyRefusal struct {
	status int
	code   string // what Squid or a proxy that speaks RFC 9209 gives as error; empty: none
}

func (r *proxyRefusal) Error() string { return r.reason().Error() }

// Unwrap returns why.
func (r *proxyRefusal) Unwrap() error { return r.reason() }

func (r *proxyRefusal) reason() cause.Details {
	if r.code == "" {
		return cause.Details{Reason: cause.ProxyAnswer, Number: r.status}
	}
	return cause.Details{Reason: cause.ProxyAnswerCode, Number: r.status, Code: r.code}
}

// cause is the one of a refusal: 407 is about our credentials or that there are
// none, and every other one about what the proxy lets through or reaches.
func (r *proxyRefusal) cause() Cause {
	if r.status == 407 {
		return EgressAuth
	}
	return EgressDenied
}

// certificateRefusal is what the answer says to an operator. Its reason phrase is any text, and
// is dropped; so is an error code that gives away what authorizes us.
func (a *answer) parseProxyRefusal(authorization Secret) *proxyRefusal {
	r := &proxyRefusal{status: a.status}
	// Squid's is followed by a number.
	code, _, _ := strings.Cut(string(httpfield.Trim(a.proxyError())), " ")
	if cause.IsCode(code) && !authorization.AppearsIn(code) {
		r.code = code
	}
	return r
}

// isFromProxy reports whether the answer is the proxy's own, and not what the ingress has
// sent through it; absolute says that the proxy was asked in plain HTTP. 407 is a
// proxy's by definition (RFC 9110 section 15.5.8). An error that Squid makes has
// X-Squid-Error (its src/errorpage.cc), also where an admin has set `via off`; one of
// a proxy that knows RFC 9209 has an error in Proxy-Status. For others there is Via, which a
// proxy must add to what it forwards (RFC 9110 section 7.6.3): where it is missing
// from an error of the kind that proxies make, nothing was forwarded, unless X-Cache
// shows a Squid with `via off`. That there is a Via says nothing: Squid adds it to
// its own errors as well (all measured with Squid 5.7).
//
// Within a tunnel only a proxy that looks into TLS answers by itself, where it does
// not like the router, for example: what names its error is the only sign then.
func (a *answer) isFromProxy(absolute bool) bool {
	switch {
	case absolute && a.status == 407:
		return true
	case a.status < 400, a.loopDetected:
		return false
	case a.proxyError() != nil:
		return true
	case !absolute:
		return false
	}
	switch a.status {
	case 403, 502, 503, 504:
		return a.fieldValue("via") == nil && a.fieldValue("x-cache") == nil
	default:
		return false
	}
}

// proxyError is what a proxy says in a field of why it answers by itself; nil if
// none does.
func (a *answer) proxyError() []byte {
	if squid := a.fieldValue("x-squid-error"); squid != nil {
		return squid
	}
	for rest := a.buf[a.fields.from:a.fields.to]; len(rest) > 0; {
		var name, value []byte
		name, value, rest = httpfield.Next(rest)
		if !httpfield.EqualFold(name, "proxy-status") {
			continue
		}
		if found := statusError(value); found != nil {
			return found
		}
	}
	return nil
}

// statusError is the error of a Proxy-Status field (RFC 9209 section 2.1.1), but
// for those of front doors like this one. A quoted text may hold what looks like
// one: then it is in an answer of a proxy that has something to say all the same.
func statusError(list []byte) []byte {
	for len(list) > 0 {
		var member []byte
		member, list, _ = bytes.Cut(list, []byte{','})
		by, parameters, _ := bytes.Cut(member, []byte{';'})
		if httpfield.EqualFold(httpfield.Trim(by), httpfield.ServiceName) {
			continue
		}
		for len(parameters) > 0 {
			var p []byte
			p, parameters, _ = bytes.Cut(parameters, []byte{';'})
			if name, value, is := bytes.Cut(httpfield.Trim(p), []byte{'='}); is && string(name) == "error" {
				return value
			}
		}
	}
	return nil
}

// fieldValue is that of the first field with the name, which is in lower case; nil when
// there is none. The answer's head must be complete and its buffer there.
func (a *answer) fieldValue(name string) []byte {
	for rest := a.buf[a.fields.from:a.fields.to]; len(rest) > 0; {
		var n, v []byte
		n, v, rest = httpfield.Next(rest)
		if httpfield.EqualFold(n, name) {
			return append([]byte{}, v...)
		}
	}
	return nil
}
