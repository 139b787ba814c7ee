// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// sameOverHTTPS reports whether a Location is the https URL of the same request.
// The request was made by http for host (in canonical form, without a port) and
// target. Everything else is false: another scheme, host, port, path or query, even
// with the same meaning, and a user, a fragment, or a relative reference.
//
// The host is never resolved: the request goes to the ingress again.
func sameOverHTTPS(location []byte, host string, target []byte, httpsPort uint16) bool {
	const scheme = "https://"
	authority, ok := bytes.CutSuffix(location, target)
	if !ok || host == "" || len(target) == 0 || target[0] != '/' || !httpfield.HasPrefixFold(authority, scheme) {
		return false
	}
	return slices.ContainsFunc([]string{":443", ":" + strconv.Itoa(int(httpsPort))}, func(port string) bool {
		name := bytes.TrimSuffix(authority[len(scheme):], []byte(port))
		return httpfield.EqualFold(bytes.TrimSuffix(name, []byte(".")), host)
	})
}

// describeRedirect returns scheme, host and port of the destination for an
// operator. It drops path and query, which can be any text and may contain secrets
// of applications.
func (a *response) describeRedirect() cause.Details {
	if a.locations > 1 {
		return cause.Details{Reason: cause.MultipleLocations, Number: a.locations}
	}
	to, err := url.Parse(string(a.fieldValue("location")))
	if err != nil || !cause.IsHostname(to.Hostname()) {
		return cause.Details{Reason: cause.RedirectInvalid}
	}
	details := cause.Details{Names: []string{to.Hostname()}}
	if port, err := strconv.ParseUint(to.Port(), 10, 16); err == nil {
		details.Number = int(port)
	}
	switch to.Scheme {
	case "http":
		details.Reason = cause.RedirectToHTTP
	case "https":
		details.Reason = cause.RedirectToHTTPS
	default:
		return cause.Details{Reason: cause.RedirectInvalid}
	}
	return details
}

// isAddress reports whether a host without a port is an IP address.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

// classify returns the cause that a well-formed response shows, or reports that it is a
// redirect to follow. redirected means that another one was followed: a second redirect to the
// same URL is a loop. A 503 always comes from the router itself, whatever its page: the cluster
// can configure the page (IngressController, spec.httpErrorCodePages), and no solver answers
// 503.
func (a *response) classify(r *Request, settings *activeSettings, redirected bool) (shown findings.ID, follow bool) {
	switch {
	case a.status == 503 && isAddress(r.Host):
		return findings.RouteMissingForAddress, false
	case a.status == 503:
		return findings.RouteMissing, false
	case a.status == 502 && a.loopDetected:
		return findings.RouteLoop, false
	case a.status < 300 || a.status > 399 || a.status == 304 || a.locations == 0: // RFC 9110 section 15.4
		return "", false
	case a.locations > 1 || !sameOverHTTPS(a.fieldValue("location"), r.Host, r.Target, settings.HTTPSPort):
		a.redirectTarget = a.describeRedirect()
		return findings.RouteRedirectsElsewhere, false
	case !settings.FollowRedirects:
		return findings.RouteRedirectsHTTPS, false
	case redirected:
		return findings.RouteRedirectLoop, false
	default:
		return "", a.status == 301 || a.status == 302 || a.status == 303 || a.status == 307 || a.status == 308
	}
}

// forwardedHostAndProto returns the end of Forwarded as pkg/proxy/reqhead writes
// it. A value that is not a token is quoted (RFC 7239 section 4).
func forwardedHostAndProto(host, scheme string) []byte {
	if strings.Contains(host, ":") {
		host = `"` + host + `"`
	}
	return []byte(";host=" + host + ";proto=" + scheme + "\r\n")
}

// redirectedToTLS returns the request as a client would send it after the redirect: to the same
// host by https. Some rules of routers depend on the fields of a proxy, and these must show
// https. Only pkg/proxy/reqhead writes these fields; the client's are not forwarded.
func (r *Request) redirectedToTLS() *Request {
	next := *r
	next.Head = make([]byte, 0, len(r.Head)+len(r.Host))
	authority := "" // Host of the client, with its port
	for line := range bytes.Lines(r.Head) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case "Host":
			authority = string(httpfield.Trim(bytes.TrimSuffix(value, []byte("\r\n"))))
			line = []byte("Host: " + r.Host + "\r\n")
		case "X-Forwarded-Host":
			line = []byte("X-Forwarded-Host: " + r.Host + "\r\n")
		case "X-Forwarded-Proto":
			line = []byte("X-Forwarded-Proto: https\r\n")
		case "X-Forwarded-Port":
			line = []byte("X-Forwarded-Port: 443\r\n")
		case "Forwarded":
			line = bytes.Replace(line, forwardedHostAndProto(authority, "http"), forwardedHostAndProto(r.Host, "https"), 1)
		}
		next.Head = append(next.Head, line...)
	}
	return &next
}
