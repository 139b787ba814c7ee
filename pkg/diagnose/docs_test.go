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

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/docurl"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

var update = flag.Bool("update", false, "write docs/troubleshooting.md and docs/troubleshooting")

// frontPage is what docs/troubleshooting.md contains besides its template.
type frontPage struct {
	Frequent []observed
	States   []observed
	Results  []observedResult
	Reports  []observed // of the CA
	Messages []observed // of cert-manager
	Pages    []checkPage
}

// observed is what a client of port 80 observes, or what a CA or cert-manager reports.
type observed struct {
	Text    string
	Meaning string
	Entries []findings.Entry // whose symptom has the result
}

// observedResult is what a client of port 80 observes.
type observedResult struct {
	observed
	Bodies []observed // the entries that the response's body selects
}

// checkPage is a document with the entries of a check.
type checkPage struct {
	Name    string
	Title   string
	About   string
	Entries []findings.Entry
}

// JournalOnly lists the entries that no check finds.
func (p checkPage) JournalOnly() string {
	var ids []string
	for _, e := range p.Entries {
		if e.JournalOnly {
			ids = append(ids, "`"+string(e.ID)+"`")
		}
	}
	return strings.Join(ids, ", ")
}

// Fix is the remediation of an entry and its commands. If an entry before it has the same ones, it
// refers to that.
func (p checkPage) Fix(i int) string {
	e := p.Entries[i]
	text, block := prose(e.Remediation), strings.Join(e.Commands, "\n")
	for _, before := range p.Entries[:i] {
		switch {
		case !slices.Equal(before.Commands, e.Commands):
		case before.Remediation == e.Remediation:
			return fmt.Sprintf("Fix: see [%s](#%[1]s).", before.ID)
		case len(strings.Fields(block)) > 8:
			return fmt.Sprintf("%s\n\nCommands: see [%s](#%[2]s).", text, before.ID)
		}
	}
	if block == "" {
		return text
	}
	return text + "\n\n```text\n" + block + "\n```"
}

// TestTroubleshooting: docs/troubleshooting.md and the pages in docs/troubleshooting match
// the findings. `make docs` writes them.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	documents := filepath.Join("..", "..", "docs")
	pages := checkPages()
	want := map[string]string{
		"troubleshooting.md": render(t, "front.md.tmpl", frontPage{
			frequentCauses(t), states(), observedResults(t), caReports(t), certManagerMessages(t), pages,
		}),
	}
	for _, p := range pages {
		want["troubleshooting/"+p.Name+".md"] = render(t, "page.md.tmpl", p)
	}
	if *update {
		for path := range readPages(t, documents) {
			if err := os.Remove(filepath.Join(documents, path)); err != nil {
				t.Fatal(err)
			}
		}
		for path, text := range want {
			if err := os.WriteFile(filepath.Join(documents, path), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := readPages(t, documents)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the documents are outdated; run make docs (-want +got):\n%s", diff)
	}
}

// readPages returns the generated documents by their paths below docs.
func readPages(t *testing.T, documents string) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, pattern := range []string{"troubleshooting.md", "troubleshooting/*.md"} {
		paths, err := filepath.Glob(filepath.Join(documents, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			pages[filepath.ToSlash(strings.TrimPrefix(path, documents+string(filepath.Separator)))] = string(text)
		}
	}
	return pages
}

// TestFindingURLs: the URL of each finding leads to a heading with its ID.
func TestFindingURLs(t *testing.T) {
	t.Parallel()
	for _, e := range findings.All() {
		page, anchor, _ := strings.Cut(strings.TrimPrefix(e.ID.URL(), docurl.Findings), "#")
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", "troubleshooting", page))
		if err != nil {
			t.Error(err)
		} else if anchor != string(e.ID) || !strings.Contains(string(text), "\n## "+anchor+"\n") {
			t.Errorf("%s does not lead to a heading", e.ID.URL())
		}
	}
	if got := findings.ID("unheard-of").URL(); got != docurl.Troubleshooting {
		t.Errorf("an unknown finding is at %s", got)
	}
}

// render executes a template of testdata.
func render(t *testing.T, name string, data any) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	functions := template.FuncMap{
		"links": links, "output": output,
	}
	if err := template.Must(template.New("").Funcs(functions).Parse(string(text))).Execute(&b, data); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// links returns the links from the front page to entries.
func links(all []findings.Entry) string {
	var b strings.Builder
	for i, e := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "[%s](troubleshooting/%s.md#%[1]s)", e.ID, e.Page())
	}
	return b.String()
}

// output is the message of the program about a finding, with placeholders.
func output(e findings.Entry) string {
	if e.Level == findings.Warning {
		return "! " + e.Message
	}
	return e.Message
}

// prose is a text of the program as Markdown. Nothing outside back quotes is markup, except
// URLs.
func prose(text string) string {
	parts := strings.Split(text, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = regexp.MustCompile(`[<*|\[\]]|\b_|_\b`).ReplaceAllString(parts[i], `\$0`)
	}
	return strings.Join(parts, "`")
}

// checkPages returns the pages in the order of the findings.
func checkPages() []checkPage {
	titles := map[string]string{
		"cluster": "Comparison of the nodes", findings.PreflightCheck: "Preflight", "microshift": "MicroShift",
		findings.IssuanceCheck: "Issuance",
	}
	about := map[string]string{
		"microshift":            "What fails on [MicroShift](../microshift.md) hosts only.",
		"cluster":               "What `oc http01 status` and `oc http01 check` find when they compare the nodes.",
		findings.IssuanceCheck:  "What `oc http01 certificate` finds in the objects between the APIServer and the challenge.",
		findings.PreflightCheck: "What `oc http01 preflight` finds [before a change](../install/machineconfig.md#before-a-change).",
	}
	for _, c := range List() {
		about[c.Name] = "✓ " + c.About
		titles[c.Name] = "Check `" + c.Name + "`"
	}
	var pages []checkPage
	for _, e := range findings.All() {
		i := slices.IndexFunc(pages, func(p checkPage) bool { return p.Name == e.Page() })
		if i < 0 {
			i = len(pages)
			pages = append(pages, checkPage{Name: e.Page(), Title: titles[e.Page()], About: about[e.Page()]})
		}
		pages[i].Entries = append(pages[i].Entries, e)
	}
	return pages
}

// entries returns the entries with these IDs.
func entries(t *testing.T, all ...findings.ID) []findings.Entry {
	t.Helper()
	var found []findings.Entry
	for _, id := range all {
		e, known := findings.Lookup(id)
		if !known {
			t.Errorf("no finding has the ID %s", id)
		}
		found = append(found, e)
	}
	return found
}

// frequentCauses returns the first ten causes to think of.
func frequentCauses(t *testing.T) []observed {
	t.Helper()
	return []observed{
		{
			"503 in the self check, and the challenge stays pending",
			"The router has no route to the solver: from 1.18 on, cert-manager needs `ACMEHTTP01IngressPathTypeExact=false`.",
			entries(t, findings.RouteMissing),
		},
		{
			"the CA times out or is refused, and `check` finds no problem",
			"The firewall or NAT before the cluster does not forward port 80, or the record is wrong.",
			entries(t, findings.DNSOtherAddress, findings.DNSNoRecord),
		},
		{
			"timeouts, although the state is `Serving`",
			"A firewall on the node drops port 8888.",
			entries(t, findings.PacketDropped, findings.ReplyDropped),
		},
		{
			"the self check times out, and no request of cert-manager is in the journal",
			"The operator's default NetworkPolicy blocks cert-manager.",
			entries(t, findings.SelfCheckMissing),
		},
		{
			"the self check gets an error page",
			"The self check leaves through the cluster's egress proxy.",
			entries(t, findings.NoProxyLacksAPI),
		},
		{
			"502, and the router redirects HTTP to HTTPS",
			"The router's default certificate is for `*.apps.<cluster>`, and `verifyNames` does not contain that.",
			entries(t, findings.IngressTLSName, findings.IngressTLSUntrusted),
		},
		{
			"400 for a challenge",
			"Clients use another name for the API than `api.<cluster>`.",
			entries(t, findings.NameNotAllowed),
		},
		{
			"some connections fail, others succeed",
			"Two hosts have the VIP, or only one address family works.",
			entries(t, findings.VIPDuplicate, findings.ProxyUnreachable),
		},
		{
			"no route to host",
			"No node holds the VIP.",
			entries(t, findings.VIPUnassigned),
		},
		{
			"a renewed certificate, and clients still get the old one",
			"The API server does not load it, or not at each address.",
			entries(t, findings.CertificateDiffersByAddress, findings.NamedCertificatesTooMany),
		},
	}
}

// states returns the states of the service that an entry has as its symptom.
func states() []observed {
	var all []observed
	for _, e := range findings.All() {
		for _, m := range regexp.MustCompile(`state is `+"`([A-Za-z]+)`").FindAllStringSubmatch(e.Symptom, -1) {
			if m[1] == "Serving" || m[1] == "Standby" {
				continue
			}
			i := slices.IndexFunc(all, func(o observed) bool { return o.Text == m[1] })
			if i < 0 {
				i = len(all)
				all = append(all, observed{Text: m[1]})
			}
			all[i].Entries = append(all[i].Entries, e)
		}
	}
	return all
}

// observedResults returns the results with their entries.
func observedResults(t *testing.T) []observedResult {
	t.Helper()
	var all []observedResult
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
		{"405", "The method is neither GET nor HEAD. This is another client.", ""},
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
		found := observedResult{observed: observed{Text: r.text, Meaning: r.meaning}}
		for _, e := range findings.All() {
			if r.symptom == "" || !regexp.MustCompile(r.symptom).MatchString(e.Symptom) {
				continue
			}
			if r.text != "502" && r.text != "504" || e.Reply == "" {
				found.Entries = append(found.Entries, e)
				continue
			}
			i := slices.IndexFunc(found.Bodies, func(o observed) bool { return o.Text == e.Reply })
			if i < 0 {
				i = len(found.Bodies)
				found.Bodies = append(found.Bodies, observed{e.Reply, "", nil})
			}
			found.Bodies[i].Entries = append(found.Bodies[i].Entries, e)
		}
		if r.symptom != "" && len(found.Entries)+len(found.Bodies) == 0 {
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
		{response + "404, 502, 503 or 504", "As [above](#by-observed-result).", nil, ""},
		{
			response + "500", "The back end of the route fails. The same is reported for other statuses.",
			[]findings.ID{findings.ResponseStatus},
			"",
		},
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
			"The servers of the zone fail, or its DNSSEC signatures are not valid.",
			[]findings.ID{findings.DNSServerFails, findings.DNSSECBogus},
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
// test/rehearsal compares them with cert-manager's own texts.
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
			`did not get expected response when querying endpoint, expected "…" but got: …`,
			"The same, before cert-manager 1.21.2.",
			[]findings.ID{findings.ResponseNotKey},
		},
		{
			"Waiting … before accepting HTTP-01 challenge without self-check",
			"The solver sets `waitInsteadOfSelfCheck`. cert-manager sends no self check. The CA's requests follow " +
				"after that time.", nil,
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
		all = append(all, observed{r.text, r.meaning, entries(t, r.ids...)})
	}
	return all
}
