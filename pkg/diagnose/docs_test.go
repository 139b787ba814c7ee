// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

var update = flag.Bool("update", false, "write docs/troubleshooting.md")

type page struct {
	Results  []observed
	Reports  []observed // of the CA
	Messages []observed // of cert-manager
	Symptoms []symptom
	Checks   []section
}

// observed is what a client of port 80 observes, or what a CA reports.
type observed struct {
	Text    string
	Meaning string
	Entries []findings.Entry // whose symptom has the result
}

type symptom struct {
	Text    string
	Entries []findings.Entry
}

type section struct {
	Title   string
	Entries []paragraph
}

type paragraph struct {
	findings.Entry

	Printed string // output of check, the journal or "oc http01 status", with placeholders
}

// TestTroubleshooting: docs/troubleshooting.md matches the findings. `make docs` writes
// it.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "troubleshooting.md.tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := template.Must(template.New("").Parse(string(text))).Execute(&b, newPage(t)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "troubleshooting.md")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	there, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(there)); diff != "" {
		t.Errorf("docs/troubleshooting.md is outdated; run make docs (-want +got):\n%s", diff)
	}
}

// observedResults returns the results with their entries.
func observedResults(t *testing.T) []observed {
	t.Helper()
	var all []observed
	for _, r := range []struct{ text, meaning, symptom string }{
		{
			"400 with `Only /.well-known/acme-challenge/* is allowed`",
			"The expected response to a request that is not a challenge. For a challenge, the name is not [accepted](configuration.md#accepted-names).",
			"get 400 with `Only",
		},
		{
			"400 with another text", "The router rejects the connection, or the client's request is not valid HTTP/1.1.",
			"get 400 with the router's",
		},
		{"404", "The solver does not have this token.", `get 404`},
		{"405", "The method is neither GET nor HEAD. Validators and self checks use GET: this is another client.", ""},
		{"408, 413, 414, 431, 501, 505", "The request is too slow, too large or malformed. This is another client.", ""},
		{"502", "The ingress did not send a usable response. The response body names the reason.", `\b502\b`},
		{"503", "The router has no route for this name.", `\b503\b`},
		{"504", "The ingress did not respond in time.", `\b504\b`},
		{
			"the response of another program", "A rule or a listener of another program gets the connection.",
			"response of another program|that of another program",
		},
		{"a redirect", "The service did not follow the router's redirect.", `get a redirect`},
		{"connection refused", "Nothing listens at the address, or a rule rejects the connection.", `(?:is|are|or) refused`},
		{
			"connection reset",
			"The journal has `EVENT=evicted` or `EVENT=source-limit` for a limit. Otherwise the client connected to the " +
				"internal port directly.", "",
		},
		{"timeout", "Packets are lost, or no host has the address.", `(?i)time out|times out for|then hang`},
		{"no route to host", "No host has the VIP.", "No route to host"},
	} {
		found := observed{Text: r.text, Meaning: r.meaning}
		for _, e := range findings.All() {
			if r.symptom != "" && regexp.MustCompile(r.symptom).MatchString(e.Symptom) {
				found.Entries = append(found.Entries, e)
			}
		}
		if r.symptom != "" && len(found.Entries) == 0 {
			t.Errorf("no finding has the result %q", r.text)
		}
		all = append(all, found)
	}
	return all
}

// caReports returns the texts of Let's Encrypt's validation code (boulder v0.20260901.0,
// va/va.go, va/http.go and bdns/problem.go) with their entries. TestReports in
// test/suites/validation holds that this code returns each of them.
func caReports(t *testing.T) []observed {
	t.Helper()
	const response, fetching = "ADDRESS: Invalid response from URL: ", "ADDRESS: Fetching URL: "
	elsewhere := []findings.ID{findings.RouteRedirectsElsewhere}
	var all []observed
	for _, r := range []struct {
		text, meaning string
		ids           []findings.ID
		symptom       string // of further entries
	}{
		{
			response + "400", "The service rejects the name, or the router rejects the connection.",
			[]findings.ID{findings.NameNotAllowed, findings.IngressPROXYProtocol, findings.RouteRedirectsElsewhere},
			"",
		},
		{response + "404", "The solver does not have this token.", nil, "get 404"},
		{
			response + "500", "The back end of the route fails. The same is reported for other statuses.",
			[]findings.ID{findings.ResponseStatus},
			"",
		},
		{response + "502", "The ingress did not send a usable response.", nil, `\b502\b`},
		{response + "503", "The router has no route for this name.", nil, `\b503\b`},
		{response + "504", "The ingress did not respond in time.", nil, `\b504\b`},
		{response + `"RESPONSE"`, "The response has more than 127 bytes.", []findings.ID{findings.ResponseNotKey}, ""},
		{
			`The key authorization file from the server did not match this challenge. Expected "KEY" (got "RESPONSE")`,
			"Another application responds.",
			[]findings.ID{findings.ResponseNotKey},
			"",
		},
		{
			fetching + "Connection refused", "Nothing listens at the address, or a rule rejects the connection.",
			[]findings.ID{findings.RouteRedirectsHTTPS},
			"(?:is|are|or) refused",
		},
		{
			fetching + "Connection reset by peer", "The journal has `EVENT=evicted` or `EVENT=source-limit` for a limit.", nil,
			"",
		},
		{
			fetching + "Timeout during connect (likely firewall problem)", "Packets are lost, or no host has the address.", nil,
			"(?i)time out|times out for|then hang",
		},
		{
			fetching + "Timeout after connect (your server may be slow or overloaded)",
			"Packets are lost after the connection is established.",
			[]findings.ID{
				findings.PathMTUBlackHole,
				findings.ProxyUnreachable,
			},
			"",
		},
		{
			fetching + "Error getting validation data",
			"No host has the VIP (`no route to host`), or the connection ended early.", nil, "No route to host",
		},
		{
			"During secondary validation: " + fetching + "Connection refused",
			"The primary perspective of the CA got the key, and at least two remote ones did not.", nil,
			"for some clients|some clients get",
		},
		{fetching + "Redirect loop detected", "The router redirects the challenge to its own URL.", elsewhere, ""},
		{
			fetching + "Invalid port in redirect target. Only ports 80 and 443 are supported, not 8443",
			"The CA does not follow the redirect.", elsewhere, "",
		},
		{
			fetching + "Invalid host in redirect target, must end in IANA registered TLD",
			"The CA does not follow the redirect.", elsewhere, "",
		},
		{
			fetching + `Invalid protocol scheme in redirect target. Only "http" and "https" protocol schemes are supported, not "ftp"`,
			"The CA does not follow the redirect.", elsewhere, "",
		},
		{
			"no valid A records found for NAME; no valid AAAA records found for NAME", "The name has no address.",
			[]findings.ID{findings.DNSNoRecord},
			"",
		},
		{
			"DNS problem: SERVFAIL looking up A for NAME - the domain's nameservers may be malfunctioning; " +
				"DNS problem: SERVFAIL looking up AAAA for NAME - the domain's nameservers may be malfunctioning",
			"The servers of the zone fail.",
			[]findings.ID{findings.DNSServerFails},
			"",
		},
	} {
		found := observed{Text: r.text, Meaning: r.meaning}
		for _, e := range findings.All() {
			if slices.Contains(r.ids, e.ID) || r.symptom != "" && regexp.MustCompile(r.symptom).MatchString(e.Symptom) {
				found.Entries = append(found.Entries, e)
			}
		}
		all = append(all, found)
	}
	return all
}

// certManagerMessages returns cert-manager's texts with their entries (pkg/issuer/acme/http,
// pkg/controller/acmechallenges, acmeorders and certificaterequests). TestFailures of
// test/rehearsal compares them with those of cert-manager itself.
func certManagerMessages(t *testing.T) []observed {
	t.Helper()
	const self = "failed to perform self check GET request '…': "
	var all []observed
	for _, r := range []struct {
		text, meaning string
		ids           []findings.ID
	}{
		{
			"Waiting for HTTP-01 challenge propagation: …",
			"The self check failed, and is repeated every 10 s. One of the next messages follows.", nil,
		},
		{
			"wrong status code '400', expected '200'", "The service does not [accept](configuration.md#accepted-names) the name, or the router rejects the connection.",
			[]findings.ID{findings.NameNotAllowed, findings.IngressPROXYProtocol},
		},
		{
			"wrong status code '404', expected '200'", "Another application or another solver has the request.",
			[]findings.ID{findings.TokenUnknown},
		},
		{
			"wrong status code '502', expected '200'", "The service gets no usable response of the ingress.",
			[]findings.ID{
				findings.IngressRefused, findings.IngressUnreachable, findings.IngressTLSUntrusted,
				findings.ResponseTruncated,
			},
		},
		{
			"wrong status code '503', expected '200'",
			"The router has no route to a solver that is ready. In the first seconds this is normal.",
			[]findings.ID{findings.RouteMissing, findings.RouteMissingForAddress},
		},
		{
			`did not get expected response "…" when querying endpoint`, "The response has status 200, but is not the key.",
			[]findings.ID{findings.ResponseNotKey},
		},
		{
			self + "…: connect: connection refused", "Nothing listens on port 80 of the address.",
			[]findings.ID{findings.ServiceNotRunning, findings.DNSOtherAddress, findings.PacketDropped},
		},
		{
			self + "…: i/o timeout", "Packets are lost. Often a NetworkPolicy drops them.",
			[]findings.ID{findings.SelfCheckMissing, findings.VIPUnassigned, findings.PacketDropped, findings.PacketLost},
		},
		{self + "…: no such host", "The name has no record in the cluster's DNS.", []findings.ID{
			findings.DNSNoRecord,
			findings.DNSNoServer,
		}},
		{
			"Error accepting authorization: acme: authorization error for …",
			"The self check passed, but the CA's own requests failed. See [the CA's " +
				"error](runbooks/HTTP01APICertificateExpiring.md#diagnosis).", nil,
		},
		{
			`Failed to wait for order resource "…" to become ready: order is in "invalid" state: …`,
			"The attempt is over. Fix the cause, then [renew](runbooks/certificate-expired.md#4-renew).", nil,
		},
		{
			`Failed to wait for order resource "…" to become ready: order is in "errored" state: …`,
			"The CA rejected a request. See [the CA's error](runbooks/HTTP01APICertificateExpiring.md#diagnosis), then " +
				"[renew](runbooks/certificate-expired.md#4-renew).", nil,
		},
		{
			"Failed to create Order: 429 urn:ietf:params:acme:error:rateLimited: …",
			"The CA limits the account or the name. Renew after the time in the message, not before.", nil,
		},
		{
			"Failed to retrieve Order resource: 403 urn:ietf:params:acme:error:unauthorized: …",
			"The order belongs to another account: the account's key has changed. " +
				"[Renew](runbooks/certificate-expired.md#4-renew).", nil,
		},
		{
			"no configured challenge solvers can be used for this challenge",
			"HTTP-01 cannot prove a wildcard. Remove it from the Certificate.", nil,
		},
	} {
		found := observed{Text: r.text, Meaning: r.meaning}
		for _, id := range r.ids {
			e, is := findings.Lookup(id)
			if !is {
				t.Errorf("no finding has the ID %s", id)
			}
			found.Entries = append(found.Entries, e)
		}
		all = append(all, found)
	}
	return all
}

func newPage(t *testing.T) page {
	t.Helper()
	p := page{Results: observedResults(t), Reports: caReports(t), Messages: certManagerMessages(t)}
	for _, e := range findings.All() {
		i := slices.IndexFunc(p.Symptoms, func(s symptom) bool { return s.Text == e.Symptom })
		if i < 0 {
			i = len(p.Symptoms)
			p.Symptoms = append(p.Symptoms, symptom{Text: e.Symptom})
		}
		p.Symptoms[i].Entries = append(p.Symptoms[i].Entries, e)
		title := "The check " + e.Check
		switch {
		case e.Check == findings.PreflightCheck:
			title = "Before a change"
		case e.ClusterOnly:
			title = "The cluster"
		}
		if n := len(p.Checks); n == 0 || p.Checks[n-1].Title != title {
			p.Checks = append(p.Checks, section{Title: title})
		}
		at := &p.Checks[len(p.Checks)-1]
		at.Entries = append(at.Entries, paragraph{e, renderFinding(t, e)})
	}
	return p
}

func renderFinding(t *testing.T, e findings.Entry) string {
	t.Helper()
	f := findings.New(e.ID, nil)
	if e.JournalOnly || e.ClusterOnly {
		return f.String() + "\n"
	}
	mark := "!"
	if f.Level == findings.Problem {
		mark = "✗"
	}
	indent := strings.Repeat(" ", len(e.Check)+4)
	return fmt.Sprintf("%s %s  ", mark, e.Check) + wrap(fmt.Sprintf("[%s] %s", f.ID, f.Message), indent) +
		indent + wrap("fix: "+f.Remediation, indent)
}

// wrap is the text in lines of 110 columns, of which all but the first have the indent.
func wrap(text, indent string) string {
	var b strings.Builder
	column := len(indent)
	for i, word := range strings.Fields(text) {
		size := utf8.RuneCountInString(word)
		switch {
		case i > 0 && column+1+size > 110:
			b.WriteString("\n" + indent)
			column = len(indent)
		case i > 0:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += size
	}
	return b.String() + "\n"
}
