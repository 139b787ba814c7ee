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
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// maxKey is what Let's Encrypt reads of an answer (boulder, va/http.go).
const maxKey = 127

// judged is what is to be said of an answer to a challenge.
type judged struct {
	findings []findings.Finding
	text     string
}

// judge judges the answer that a router gave to the challenge of a token, or,
// without one, to a challenge that nobody has asked for.
func (a asked) judge(name, token string) judged {
	cause := causeOf(a.page)
	switch {
	case cause != "" && (token != "" || cause != upstream.NoRoute):
		return judged{findings: []findings.Finding{a.finding(cause)}}
	case token == "":
		return a.judgeUnasked(name)
	case a.page.Status == 404:
		v := a.found(findings.TokenUnknown, "name", name)
		if !a.solver() {
			v.findings[0].Says += ", and by its look is no solver of cert-manager's: " + a.look()
		}
		return v
	case a.page.Status != 200:
		return a.found(findings.AnswerStatus, "name", name, "how", words(a.page))
	}
	if id, values := misform(a.page.Body, a.page.Length, token); id != "" {
		return a.found(id, append(values, "name", name)...)
	}
	return judged{text: fmt.Sprintf("the key of %d bytes, in %s", a.page.Length, report.Milliseconds(a.page.Total))}
}

func (a asked) found(id findings.ID, values ...string) judged {
	return judged{findings: []findings.Finding{findings.Find(id, append(values, "upstream", a.addr.String())...)}}
}

// judgeUnasked: a router has no route for what nobody has asked for, and a solver
// does not know it.
func (a asked) judgeUnasked(name string) judged {
	switch {
	case causeOf(a.page) == upstream.NoRoute:
		return judged{text: "no challenge for " + name + " is pending now, as far as a made-up token can tell (503, no route): with one that is, use --token"}
	case a.solver():
		return judged{text: "a solver for " + name + " answers (404 to a made-up token, as cert-manager's does)"}
	default:
		return a.found(findings.NameServed, "name", name, "how", a.look())
	}
}

// solver reports whether a 404 looks like that of cert-manager's solver
// (pkg/issuer/acme/http/solver), which is Go's own (net/http, NotFound).
func (a asked) solver() bool {
	return a.page.Status == 404 && a.page.Server == "" && a.page.ContentType == "text/plain; charset=utf-8" &&
		string(a.page.Body) == "404 page not found\n"
}

// look says in a few words what an answer is that is none to a challenge.
func (a asked) look() string { return words(a.page) + ", " + kind(a.page.Body, a.page.Length, "") }

// causeOf is what package upstream makes of a page, be it whole or not.
func causeOf(f prober.FetchResult) upstream.Cause {
	if cause := cmp.Or(f.Cause, f.ResponseCause); cause != "" {
		return upstream.Cause(cause)
	}
	return upstream.AnswerCause(f.Status, httpfield.HasPrefixFold([]byte(f.Location), "https://"), httpfield.ListContains([]byte(f.ProxyStatus), []byte(httpfield.LoopDetected)))
}

// form is a key authorisation's: the token and the account key's thumbprint, a
// SHA-256 (RFC 8555 section 8.1).
func form(token string) *regexp.Regexp {
	return regexp.MustCompile(`^` + regexp.QuoteMeta(token) + `\.[A-Za-z0-9_-]{43}$`)
}

// misform finds what is wrong with the answer to a token's challenge, of which
// body is how it begins.
func misform(body []byte, length int, token string) (id findings.ID, values []string) {
	key := bytes.TrimRight(body, " \t\r\n")
	whole := length == len(body)
	switch {
	case whole && form(token).Match(body):
		return "", nil
	case whole && form(token).Match(key):
		return findings.AnswerTrailing, []string{"what", trailing(body[len(key):])}
	case bytes.HasPrefix(body, []byte(token+".")) && length > maxKey:
		return findings.AnswerTooLong, []string{"bytes", strconv.Itoa(length)}
	default:
		return findings.AnswerNotKey, []string{"what", kind(body, length, token)}
	}
}

// trailing names the white space after a key.
func trailing(rest []byte) string {
	if strings.Trim(string(rest), "\r\n") == "" && bytes.Count(rest, []byte("\n")) == 1 {
		return "a line break"
	}
	return fmt.Sprintf("white space of %d bytes", len(rest))
}

// kind says what an answer is rather than a key.
func kind(body []byte, length int, token string) string {
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
