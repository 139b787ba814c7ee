// SPDX-License-Identifier: Apache-2.0

package messageid

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/docurl"
)

var update = flag.Bool("update", false, "write the document")

const (
	catalogPath  = "../../../systemd/http01-proxyd.catalog"
	documentPath = "../../../docs/reference/events.md"
)

// catalogEntry is an entry of the journal catalog (https://systemd.io/CATALOG, "Message Catalog
// Developer Documentation").
type catalogEntry struct{ Event, ID, Subject, Explanation string }

// readCatalog returns the entries of the catalog, each with its event, and fails if their form is
// not that of all others.
func readCatalog(t *testing.T) (entries []catalogEntry) {
	t.Helper()
	text, err := os.ReadFile(catalogPath)
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(
		`^([0-9a-f]{32})\nSubject: (.+)\nDefined-By: http01-proxyd\nSupport: https://github.com/http01-proxyd/http01-proxyd/issues\n` +
			`Documentation: ` + regexp.QuoteMeta(docurl.Troubleshooting) + `\n(?:\n((?:.+\n)+))?$`)
	events := make(map[string]string)
	for event, id := range ids {
		events[id] = event
	}
	for _, block := range strings.Split(string(text), "\n-- ")[1:] {
		m := form.FindStringSubmatch(strings.TrimSuffix(block, "\n") + "\n")
		if m == nil || events[m[1]] == "" {
			t.Errorf("an entry of no event, or in another form: %s", block)
			continue
		}
		entries = append(entries, catalogEntry{events[m[1]], m[1], m[2], strings.TrimSuffix(m[3], "\n")})
		delete(events, m[1])
	}
	for _, event := range events {
		t.Errorf("%s explains no %s", catalogPath, event)
	}
	return entries
}

// TestDocumentIsCurrent: docs/reference/events.md matches the entries and the fields.
// `make docs` writes it.
func TestDocumentIsCurrent(t *testing.T) {
	t.Parallel()
	entries := readCatalog(t)
	for _, e := range entries {
		for _, url := range regexp.MustCompile(`https://[^\s]*[^\s.]`).FindAllString(e.Explanation, -1) {
			if url != docurl.Troubleshooting && url != docurl.States {
				t.Errorf("%s: unknown URL %s", e.Event, url)
			}
		}
	}
	var b strings.Builder
	page := template.Must(template.ParseFiles("testdata/events.md.tmpl"))
	if err := page.Execute(&b, map[string]any{"Entries": entries, "Fields": fields()}); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(documentPath, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(got)); diff != "" {
		t.Errorf("%s is outdated; run make docs (-want +got):\n%s", documentPath, diff)
	}
}

// field is a field of journal entries.
type field struct{ Name, Content string }

// fields lists all fields but those that systemd adds.
func fields() []field {
	return []field{
		{"ADDRESS", "address of MicroShift's API server, or API VIP with port"},
		{
			"ATTEMPTS_LEFT",
			"limit of the attempts that cert-manager, with its default delays, still starts before the expiry",
		},
		{"CAUSE", "[ID of the cause](../troubleshooting.md) of a failed request or test"},
		{"CLIENT", "address of the client"},
		{"CLIENT_KIND", "one of the [kinds of clients](metrics.md#label-values), by User-Agent"},
		{"CONDITION", "status of the condition `HTTP01ChallengeProxyReady`"},
		{"COUNT", "number of requests, connections, certificates, changes or failed attempts"},
		{"DURATION_MS", "duration of a request, in milliseconds"},
		{"ERROR", "error of the kernel or of a library"},
		{"EVENT", "kind of the entry"},
		{"HOST", "requested name"},
		{"HTTPS_PROXY", "egress proxy for https, without user and password"},
		{"HTTP_PROXY", "egress proxy for http, without user and password"},
		{"IGNORED", "certificates in the CA bundle that are not trusted"},
		{"ISSUER", "issuer of a certificate"},
		{"METHOD", "request method"},
		{"NAME", "name in SNI to the API server, or empty"},
		{"NOT_AFTER", "expiry of a certificate"},
		{"OUTCOME", "[outcome](metrics.md#label-values) of a request"},
		{"PATH", "file that was read"},
		{"PAUSE", "time until the next attempt"},
		{"PORT", "internal port"},
		{"REASON", "[state](status.md#states), or why a certificate is not trusted"},
		{"REJECTED", "rejected setting of the egress proxy"},
		{"REJECTED_…", "rejected requests, one field for each reason"},
		{"REQUESTS", "requests of a challenge"},
		{"REQUESTS_OK", "requests of a challenge that got 200"},
		{"SERIAL", "serial number of a certificate"},
		{"SOURCE", "origin of the CAs or of the egress proxy's setting"},
		{"SPAN_MS", "duration of a challenge, in milliseconds"},
		{"STATUS", "HTTP status of the response"},
		{"SUBJECT", "subject of a certificate"},
		{"TOKEN_PREFIX", "8 characters of the token, or half of a shorter one"},
		{"TRUSTED_CAS", "CAs that are trusted for the egress proxy"},
		{"UPSTREAM", "address and port of the ingress"},
		{"VIP", "API VIP"},
	}
}

// TestEveryFieldIsDocumented: the list has each field that the code logs, and no other.
func TestEveryFieldIsDocumented(t *testing.T) {
	t.Parallel()
	logged := regexp.MustCompile(`slog\.[A-Z]\w+\("([a-z_]+)"`)
	used := map[string]bool{}
	for _, text := range sources(t) {
		for _, m := range logged.FindAllStringSubmatch(text, -1) {
			name := strings.ToUpper(m[1])
			if strings.HasSuffix(name, "_") {
				name += "…"
			}
			used[name] = true
		}
	}
	documented := map[string]bool{}
	for _, f := range fields() {
		documented[f.Name] = true
	}
	if diff := cmp.Diff(used, documented); diff != "" {
		t.Errorf("fields (-logged +documented):\n%s", diff)
	}
}

// sources returns the texts of the program's files, by path.
func sources(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, folder := range []string{"cmd", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join("../../..", folder), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			texts[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

// TestEveryEventIsInCatalog: each logged event is in the catalog.
func TestEveryEventIsInCatalog(t *testing.T) {
	t.Parallel()
	logged := regexp.MustCompile(`slog\.String\("event", "([^"]+)"\)|"EVENT": "([^"]+)"|EventKind += "([^"]+)"`)
	found := 0
	for path, text := range sources(t) {
		for _, m := range logged.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[0], "EventKind") && !strings.Contains(path, "challengelog") {
				continue
			}
			found++
			if event := m[1] + m[2] + m[3]; MessageID(event) == "" {
				t.Errorf("%s logs %q, which is not in the catalog", path, event)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d events found, want at least 20", found)
	}
}
