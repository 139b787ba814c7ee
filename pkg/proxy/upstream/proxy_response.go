// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// parseProxyRejection returns the parts of a response of the egress proxy itself that
// an operator needs. It drops the reason phrase, which can be any text, and an error
// code that reveals the credentials. 407 is about the credentials. Every other status
// is about what the proxy permits or reaches.
func (a *response) parseProxyRejection(authorization ingress.Secret) *rejection {
	r := &rejection{EgressDenied, cause.Details{Reason: cause.ProxyAnswer, Number: a.status}}
	if a.status == 407 {
		r.cause = EgressAuth
	}
	// The code of Squid, which adds a number to it, or of RFC 9209.
	code, _, _ := strings.Cut(string(httpfield.Trim(a.proxyError())), " ")
	if cause.IsCode(code) && !authorization.AppearsIn(code) {
		r.details.Reason, r.details.Code = cause.ProxyAnswerCode, code
	}
	return r
}

// isFromProxy reports whether the proxy itself answered and not the ingress.
// absolute means that the request went to the proxy in plain HTTP.
//
// 407 is a proxy's by definition (RFC 9110 section 15.5.8). An error of Squid has
// X-Squid-Error (its src/errorpage.cc), even with `via off`. A proxy with RFC 9209
// puts an error into Proxy-Status. For other proxies Via decides, which a proxy
// must add to a forwarded response (RFC 9110 section 7.6.3). A proxy error without
// Via was therefore not forwarded, unless X-Cache shows a Squid with `via off`. Via
// alone proves nothing, because Squid adds it to its own errors too (all measured
// with Squid 5.7).
//
// Inside a tunnel only a proxy that intercepts TLS answers itself, for example
// because it rejects the router. The only sign is then a field with the name of the
// error.
func (a *response) isFromProxy(absolute bool) bool {
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

// proxyError returns the error that a proxy names in a field of its own response;
// nil: none.
func (a *response) proxyError() []byte {
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

// statusError returns the error of a Proxy-Status field (RFC 9209 section 2.1.1),
// without those of this service. A quoted text may contain what looks like an
// error. Such a field comes from a proxy with an error all the same.
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

// fieldValue returns the value of the first field with a name, in lower case; nil:
// none. The head of the response must be complete and still in its buffer.
func (a *response) fieldValue(name string) []byte {
	return httpfield.Value(a.buf[a.fields.from:a.fields.to], name)
}
