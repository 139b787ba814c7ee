// SPDX-License-Identifier: Apache-2.0

package response

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// maxKeyLength is the number of bytes that Let's Encrypt reads (boulder, va/http.go).
const maxKeyLength = 127

// IsFromProxy reports whether http01-proxyd sent this response, to a request that is not a
// challenge.
func IsFromProxy(f protocol.FetchResult) bool {
	return f.Status == 400 && string(bytes.TrimSpace(f.Body)) == report.OnlyChallenges
}

// IsForwarded reports whether http01-proxyd forwarded a response. It adds itself to Via,
// except in its own responses.
func IsForwarded(f protocol.FetchResult) bool { return strings.Contains(f.Via, "http01-proxyd") }

// IsUpstreamReport reports whether http01-proxyd itself wrote a response, about a failed exchange with
// the ingress.
func IsUpstreamReport(f protocol.FetchResult) bool {
	text := string(bytes.TrimSpace(f.Body))
	return (f.Status == 502 || f.Status == 504) && text != "" &&
		slices.ContainsFunc(findings.All(), func(e findings.Entry) bool { return e.Reply == text })
}

// IsCompleteOK reports whether the response is 200 and complete.
func IsCompleteOK(f protocol.FetchResult) bool { return f.Status == 200 && f.Cause == "" }

// Describe describes a response in a few words.
func Describe(f protocol.FetchResult) string {
	if f.Cause != "" {
		return f.Failure(f.Cause, f.UpstreamAddr).Message("it", f.Context)
	}
	text := fmt.Sprintf("status %d", f.Status)
	if f.Server != "" {
		text += fmt.Sprintf(" by %q", f.Server)
	}
	return text
}

// Start is the printable start of a response body.
func Start(body []byte) string {
	return strings.TrimSpace(printable.Truncate(string(body), 100))
}

// ConnectionFault is the reason for a missing response; empty if there is one. Faults in
// a response belong to the check of the route.
func ConnectionFault(f protocol.FetchResult) findings.ID {
	switch fault := Fault(f); fault {
	case findings.ResponseMalformed, findings.ResponseTruncated, findings.ResponseTooLarge:
		return ""
	case findings.IngressPROXYProtocol, findings.EgressLoop:
		return fault
	default:
		if e, _ := findings.Lookup(fault); e.Forwarded() {
			return ""
		}
		return fault
	}
}

// Fault is the fault that the proxy would report for a response, complete or not.
func Fault(f protocol.FetchResult) findings.ID {
	if cause := cmp.Or(f.Cause, f.ResponseCause); cause != "" {
		return findings.ID(cause) // the protocol accepts only known causes
	}
	switch {
	case f.Status == 503:
		return findings.RouteMissing
	case f.Status >= 300 && f.Status < 400 && httpfield.HasPrefixFold([]byte(f.Location), "https://"):
		return findings.RouteRedirectsHTTPS
	case f.Status == 502 && httpfield.ListContains([]byte(f.ProxyStatus), []byte(httpfield.LoopDetected)):
		return findings.RouteLoop
	default:
		return ""
	}
}

// keyPattern matches a key authorisation: the token and the account key's thumbprint, a
// SHA-256 (RFC 8555 section 8.1).
func keyPattern(token string) *regexp.Regexp {
	return regexp.MustCompile(`^` + regexp.QuoteMeta(token) + `\.[A-Za-z0-9_-]{43}$`)
}

// KeyFault describes a response to a token's challenge that is not its key; empty if it is. body
// is the start of the response body.
func KeyFault(body []byte, length int, token string) string {
	key := bytes.TrimRight(body, " \t\r\n")
	whole := length == len(body)
	switch {
	case whole && keyPattern(token).Match(body):
		return ""
	case whole && keyPattern(token).Match(key):
		return "the key, and " + describeTrailing(body[len(key):]) + " follows it"
	case bytes.HasPrefix(body, []byte(token+".")) && length > maxKeyLength:
		return fmt.Sprintf("more than the key: it has %d bytes, and CAs read %d", length, maxKeyLength)
	default:
		return DescribeBody(body, length, token)
	}
}

// describeTrailing describes the white space after a key.
func describeTrailing(rest []byte) string {
	if strings.Trim(string(rest), "\r\n") == "" && bytes.Count(rest, []byte("\n")) == 1 {
		return "a line break"
	}
	return fmt.Sprintf("white space of %d bytes", len(rest))
}

// DescribeBody describes a response body that is not a key.
func DescribeBody(body []byte, length int, token string) string {
	text := strings.ToLower(strings.TrimSpace(string(body)))
	switch {
	case length == 0:
		return "empty"
	case strings.HasPrefix(text, "<!doctype html"), strings.HasPrefix(text, "<html"):
		return fmt.Sprintf("an HTML page of %d bytes", length)
	case token != "" && strings.HasPrefix(string(body), token+"."):
		return fmt.Sprintf("the token without a valid thumbprint, %d bytes in all", length)
	default:
		return fmt.Sprintf("a text of %d bytes", length)
	}
}
