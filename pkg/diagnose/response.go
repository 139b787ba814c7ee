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
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// maxKeyLength is what Let's Encrypt reads of an answer (boulder, va/http.go).
const maxKeyLength = 127

// judgement is what is to be said of an answer to a challenge.
type judgement struct {
	findings []findings.Finding
	text     string
}

// result judges the answer that a router gave to the challenge of a token, or,
// without one, to a challenge that nobody has asked for.
func (a ingressResponse) judgeChallenge(name, token string) judgement {
	cause := pageCause(a.page)
	switch {
	case cause != "" && (token != "" || cause != upstream.NoRoute):
		return judgement{findings: []findings.Finding{a.newFinding(cause)}}
	case token == "":
		return a.judgeUnknownToken(name)
	case a.page.Status == 404:
		v := a.withFinding(findings.TokenUnknown, "name", name)
		if !a.isSolver() {
			v.findings[0].Message += ", and by its look is no solver of cert-manager's: " + a.describe()
		}
		return v
	case a.page.Status != 200:
		return a.withFinding(findings.ResponseStatus, "name", name, "how", describeFetch(a.page))
	}
	if id, values := keyFault(a.page.Body, a.page.Length, token); id != "" {
		return a.withFinding(id, append(values, "name", name)...)
	}
	return judgement{text: fmt.Sprintf("the key of %d bytes, in %s", a.page.Length, report.Milliseconds(a.page.Total))}
}

func (a ingressResponse) withFinding(id findings.ID, values ...string) judgement {
	return judgement{findings: []findings.Finding{findings.New(id, append(values, "upstream", a.addr.String())...)}}
}

// judgeUnknownToken: a router has no route for what nobody has asked for, and a solver
// does not know it.
func (a ingressResponse) judgeUnknownToken(name string) judgement {
	switch {
	case pageCause(a.page) == upstream.NoRoute:
		return judgement{text: "no challenge for " + name + " is pending now, as far as a made-up token can tell (503, no route): with one that is, use --token"}
	case a.isSolver():
		return judgement{text: "a solver for " + name + " answers (404 to a made-up token, as cert-manager's does)"}
	default:
		return a.withFinding(findings.NameAlreadyServed, "name", name, "how", a.describe())
	}
}

// isSolver reports whether a 404 looks like that of cert-manager's solver
// (pkg/issuer/acme/http/solver), which is Go's own (net/http, NotFound).
func (a ingressResponse) isSolver() bool {
	return a.page.Status == 404 && a.page.Server == "" && a.page.ContentType == "text/plain; charset=utf-8" &&
		string(a.page.Body) == "404 page not found\n"
}

// describe says in a few words what an answer is that is none to a challenge.
func (a ingressResponse) describe() string {
	return describeFetch(a.page) + ", " + describeBody(a.page.Body, a.page.Length, "")
}

// pageCause is what package upstream makes of a page, be it whole or not.
func pageCause(f protocol.FetchResult) upstream.Cause {
	if cause := cmp.Or(f.Cause, f.ResponseCause); cause != "" {
		return upstream.Cause(cause)
	}
	return upstream.AnswerCause(f.Status, httpfield.HasPrefixFold([]byte(f.Location), "https://"), httpfield.ListContains([]byte(f.ProxyStatus), []byte(httpfield.LoopDetected)))
}

// keyPattern is a key authorisation's: the token and the account key's thumbprint, a
// SHA-256 (RFC 8555 section 8.1).
func keyPattern(token string) *regexp.Regexp {
	return regexp.MustCompile(`^` + regexp.QuoteMeta(token) + `\.[A-Za-z0-9_-]{43}$`)
}

// keyFault finds what is wrong with the answer to a token's challenge, of which
// body is how it begins.
func keyFault(body []byte, length int, token string) (id findings.ID, values []string) {
	key := bytes.TrimRight(body, " \t\r\n")
	whole := length == len(body)
	switch {
	case whole && keyPattern(token).Match(body):
		return "", nil
	case whole && keyPattern(token).Match(key):
		return findings.ResponseTrailingSpace, []string{"what", describeTrailing(body[len(key):])}
	case bytes.HasPrefix(body, []byte(token+".")) && length > maxKeyLength:
		return findings.ResponseTooLong, []string{"bytes", strconv.Itoa(length)}
	default:
		return findings.ResponseNotKey, []string{"what", describeBody(body, length, token)}
	}
}

// describeTrailing names the white space after a key.
func describeTrailing(rest []byte) string {
	if strings.Trim(string(rest), "\r\n") == "" && bytes.Count(rest, []byte("\n")) == 1 {
		return "a line break"
	}
	return fmt.Sprintf("white space of %d bytes", len(rest))
}

// labelType says what an answer is rather than a key.
func describeBody(body []byte, length int, token string) string {
	text := strings.ToLower(strings.TrimSpace(string(body)))
	switch {
	case length == 0:
		return "empty"
	case strings.HasPrefix(text, "<!doctype html"), strings.HasPrefix(text, "<html"):
		return fmt.Sprintf("an HTML page of %d bytes", length)
	case token != "" && strings.HasPrefix(string(body), token+"."):
		return fmt.Sprintf("the token and something else than a thumbprint, %d bytes in all", length)
	default:
		return fmt.Sprintf("a text of %d bytes", length)
	}
}
