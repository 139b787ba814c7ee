// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// maxKeyLength is the number of bytes that Let's Encrypt reads (boulder, va/http.go).
const maxKeyLength = 127

// judgement is the evaluation of a response to a challenge.
type judgement struct {
	findings []findings.Finding
	text     string
}

// judgeChallenge evaluates a router's response to the challenge of a token, or without
// one, to a challenge that does not exist.
func (a ingressResponse) judgeChallenge(name, token string) judgement {
	fault := pageFault(a.page)
	switch {
	case fault != "" && (token != "" || fault != findings.RouteMissing):
		return judgement{findings: []findings.Finding{a.newFinding(fault)}}
	case token == "":
		return a.judgeUnknownToken(name)
	case a.page.Status == 404:
		v := a.withFinding(findings.TokenUnknown, findings.Values{"name": name})
		if !a.isSolver() {
			v.findings[0].Message += ". The response does not look like that of cert-manager's solver: " + a.describe()
		}
		return v
	case a.page.Status != 200:
		return a.withFinding(findings.ResponseStatus, findings.Values{"name": name, "how": describeFetch(a.page)})
	}
	if id, values := keyFault(a.page.Body, a.page.Length, token); id != "" {
		return a.withFinding(id, values.With("name", name))
	}
	return judgement{text: fmt.Sprintf("the key of %d bytes, in %s", a.page.Length, report.Milliseconds(a.page.Total))}
}

func (a ingressResponse) withFinding(id findings.ID, values findings.Values) judgement {
	return judgement{findings: []findings.Finding{findings.New(id, values.With("upstream", a.addr.String()))}}
}

// judgeUnknownToken evaluates the response to a token that does not exist. A router has
// no route for it, and a solver returns 404.
func (a ingressResponse) judgeUnknownToken(name string) judgement {
	switch {
	case pageFault(a.page) == findings.RouteMissing:
		return judgement{text: "no challenge for " + name + " seems to be pending (503, no route); if one is pending, use --token"}
	case a.isSolver():
		return judgement{text: "a solver for " + name + " responds (404 for an invented token, like cert-manager's)"}
	default:
		return a.withFinding(findings.NameAlreadyServed, findings.Values{"name": name, "how": a.describe()})
	}
}

// isSolver reports whether a 404 looks like that of cert-manager's solver
// (pkg/issuer/acme/http/solver), which is Go's own (net/http, NotFound).
func (a ingressResponse) isSolver() bool {
	return a.page.Status == 404 && a.page.Server == "" && a.page.ContentType == "text/plain; charset=utf-8" &&
		string(a.page.Body) == "404 page not found\n"
}

// describe describes a response that is not one to a challenge.
func (a ingressResponse) describe() string {
	return describeFetch(a.page) + ", " + describeBody(a.page.Body, a.page.Length, "")
}

// pageFault is the fault that the proxy would report for a response, complete or not.
func pageFault(f protocol.FetchResult) findings.ID {
	if cause := cmp.Or(f.Cause, f.ResponseCause); cause != "" {
		id, _ := findings.ForCause(cause) // the protocol accepts only known causes
		return id
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

// keyFault returns the fault of a response to a token's challenge. body is the start of
// the response body.
func keyFault(body []byte, length int, token string) (id findings.ID, values findings.Values) {
	key := bytes.TrimRight(body, " \t\r\n")
	whole := length == len(body)
	switch {
	case whole && keyPattern(token).Match(body):
		return "", nil
	case whole && keyPattern(token).Match(key):
		return findings.ResponseTrailingSpace, findings.Values{"what": describeTrailing(body[len(key):])}
	case bytes.HasPrefix(body, []byte(token+".")) && length > maxKeyLength:
		return findings.ResponseTooLong, findings.Values{"bytes": strconv.Itoa(length)}
	default:
		return findings.ResponseNotKey, findings.Values{"what": describeBody(body, length, token)}
	}
}

// describeTrailing describes the white space after a key.
func describeTrailing(rest []byte) string {
	if strings.Trim(string(rest), "\r\n") == "" && bytes.Count(rest, []byte("\n")) == 1 {
		return "a line break"
	}
	return fmt.Sprintf("white space of %d bytes", len(rest))
}

// describeBody describes a response body that is not a key.
func describeBody(body []byte, length int, token string) string {
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
