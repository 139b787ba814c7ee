// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// reports returns the finding IDs of each text in the section "What the CA reports" of
// docs/troubleshooting.md.
func reports(t *testing.T) map[string][]string {
	t.Helper()
	path, err := lab.ModuleFolder(filepath.Join("..", "docs", "troubleshooting.md"))
	must(t, err)
	text, err := os.ReadFile(path)
	must(t, err)
	rows := map[string][]string{}
	add := func(title, pattern string, texts func(cell string) []string) {
		_, section, _ := strings.Cut(string(text), "\n## "+title+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(section, -1) {
			var ids []string
			for _, id := range regexp.MustCompile(`\[([a-z0-9-]+)\]\(troubleshooting/`).FindAllStringSubmatch(m[0], -1) {
				ids = append(ids, id[1])
			}
			for _, text := range texts(m[1]) {
				rows[text] = ids
			}
		}
	}
	// One row has four statuses, whose findings are in the list of observed results, also in items below a status.
	const response, statuses = "ADDRESS: Invalid response from URL: ", "404, 502, 503 or 504"
	var observed []string
	add("What the CA reports", "(?m)^- `([^`]+)`:.*$", func(cell string) []string {
		if cell != response+statuses {
			return []string{cell}
		}
		observed = regexp.MustCompile(`\d{3}`).FindAllString(statuses, -1)
		return nil
	})
	add("By observed result", `(?m)^- (\d{3}):.*(?:\n  - .*)*$`, func(cell string) []string {
		if !slices.Contains(observed, cell) {
			return nil
		}
		return []string{response + cell}
	})
	if len(rows) == 0 {
		t.Fatalf("%s has no texts of the CA", path)
	}
	return rows
}

// inTable returns a CA's text with the placeholders of the table.
func inTable(c challenge, problem string) string {
	text := regexp.MustCompile(`[a-z]+://\S*[^\s:]`).ReplaceAllString(problem, "URL")
	text = regexp.MustCompile(`^(During secondary validation: )?[0-9a-f.:]+: `).ReplaceAllString(text, "${1}ADDRESS: ")
	text = regexp.MustCompile(`read tcp \S+->\S+: `).ReplaceAllString(text, "read tcp CLIENT->ADDRESS: ")
	text = strings.NewReplacer(c.Key, "KEY", c.Name, "NAME", anotherResponse, "RESPONSE").Replace(text)
	return regexp.MustCompile(`"x+"`).ReplaceAllString(text, `"RESPONSE"`)
}

// anotherResponse is a response that is not the key.
const anotherResponse = "<html>welcome</html>"

// faultCase is a fault and the finding about it, which the row of the CA's text must have.
type faultCase struct {
	name    string
	finding string // empty: the row has no finding
	unseen  bool   // the service reports no cause: it gets no request, or a fault is no cause
	host    string // of the challenge; empty: the API's name
	config  string // lines of the section upstream
	limit   time.Duration
	inject  func(t *testing.T, f *fixture, c challenge)
}

// TestReports injects each fault. It compares the text of the CA with the table, and the
// finding with the cause that the service reports. Each text of the table must occur.
func TestReports(t *testing.T) {
	f := newFixture(t)
	rows := reports(t)
	seen := map[string]bool{}
	for i, tt := range slices.Concat(responseFaults(), routerFaults(), redirectFaults(), networkFaults(), dnsFaults()) {
		t.Run(tt.name, func(t *testing.T) {
			c := newChallenge(cmp.Or(tt.host, apiName), fmt.Sprintf("fault%03d", i))
			must(t, f.Internet.SetName(t.Context(), c.Name, lab.Pair{V4: f.API.V4}))
			s := f.serve(t, "hosts: ["+apiName+"]\n"+f.upstream(t, tt.config+"  connectTimeout: 500ms\n  timeout: 500ms\n"))
			tt.inject(t, f, c)
			problem := f.validate(t, cmp.Or(tt.limit, caTimeout), c)[0].Problem
			text := inTable(c, problem)
			t.Log(text)
			seen[text] = true
			findings, found := rows[text]
			if !found {
				t.Errorf("docs/troubleshooting.md does not have %q (%s)", text, problem)
			} else if tt.finding != "" && !slices.Contains(findings, tt.finding) {
				t.Errorf("the row %q has %q, and not %s", text, findings, tt.finding)
			}
			if !tt.unseen {
				expectCause(t, s, c, tt.finding)
			}
		})
	}
	for text := range rows {
		if !seen[text] {
			t.Errorf("docs/troubleshooting.md has %q, which the CA did not report", text)
		}
	}
}

// expectCause waits until the service has logged the challenge, and compares its cause.
func expectCause(t *testing.T, s *lab.Service, c challenge, want string) {
	t.Helper()
	_, err := s.Await(t.Context(), "the challenge", func(seen lab.Status) error {
		for _, logged := range seen.Challenges.Recent {
			if !strings.HasPrefix(c.Token, logged.TokenPrefix) {
				continue
			}
			if logged.Cause != want {
				t.Errorf("cause %q, want %q: %+v", logged.Cause, want, logged)
			}
			return nil
		}
		return errors.New("not logged yet")
	})
	must(t, err)
}

// startBackend serves HTTP on an address of the worker until the test ends, and returns its
// port.
func (f *fixture) startBackend(tb testing.TB, address string, handler http.HandlerFunc) int {
	tb.Helper()
	listener, err := f.Worker.Listen(tb.Context(), address)
	must(tb, err)
	stop := lab.Serve(listener, nil, handler)
	tb.Cleanup(func() { must(tb, stop()) })
	return listener.Addr().(*net.TCPAddr).Port
}

// routeToBackend routes all challenges of the API's name to a backend of the test.
func (f *fixture) routeToBackend(tb testing.TB, handler http.HandlerFunc) {
	tb.Helper()
	r, err := f.Worker.AddRoute(tb.Context(), apiName, strings.TrimSuffix(acmePath, "/"), f.startBackend(tb, "127.0.0.1:0",
		handler))
	must(tb, err)
	tb.Cleanup(func() { must(tb, r.Remove(context.Background())) })
}

// responseFaults returns faulty responses of a solver, and of a router that fails.
func responseFaults() []faultCase {
	solver := func(finding, name string, handler http.HandlerFunc) faultCase {
		return faultCase{name: name, finding: finding, unseen: true, inject: func(t *testing.T, f *fixture, _ challenge) {
			t.Helper()
			f.routeToBackend(t, handler)
		}}
	}
	router := func(finding, name, response string) faultCase {
		return faultCase{name: name, finding: finding, inject: func(t *testing.T, f *fixture, _ challenge) {
			t.Helper()
			f.replaceRouter(t, func(w http.ResponseWriter, _ *http.Request) { sendRaw(w, response) })
		}}
	}
	return []faultCase{
		solver("token-unknown", "unknown token", http.NotFound),
		solver("response-status", "status 500",
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }),
		solver("response-not-key", "another key",
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(anotherResponse)) }),
		solver("response-not-key", "long response",
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat("x", 200))) }),
		router("ingress-closed-connection", "no response", ""),
		router("response-malformed", "malformed response", "welcome\r\n\r\n"),
		router("response-truncated", "short response", "HTTP/1.1 200 OK\r\nContent-Length: 87\r\n\r\nshort"),
		// The CA ends the connection before the service reaches its limit.
		solver("response-too-large", "endless response",
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat("x", 200_000))) }),
		router("response-too-large", "large response", "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\nlarge"),
	}
}

// replaceRouter replaces the router by a handler until the test ends.
func (f *fixture) replaceRouter(t *testing.T, handler http.HandlerFunc) {
	t.Helper()
	must(t, f.Worker.StopRouter(t.Context()))
	t.Cleanup(func() { must(t, f.Worker.StartRouter(context.Background(), lab.RouterOptions{})) })
	f.startBackend(t, ":80", handler)
}

// sendRaw sends bytes in place of a response and closes the connection.
func sendRaw(w http.ResponseWriter, response string) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = buffered.WriteString(response)
	_ = buffered.Flush()
	_ = conn.Close()
}

// routerFaults returns faults of the router, and a name that the service rejects.
func routerFaults() []faultCase {
	return []faultCase{
		{name: "no route", finding: "route-missing", inject: func(*testing.T, *fixture, challenge) {}},
		{
			name: "name not in hosts", finding: "name-not-in-hosts", unseen: true, host: "other." + domain,
			inject: func(*testing.T, *fixture, challenge) {},
		},
		{
			name: "unexpected PROXY protocol", finding: "ingress-proxy-protocol", config: "  proxyProtocol: v2\n",
			inject: func(*testing.T, *fixture, challenge) {},
		},
		{name: "router refuses connections", finding: "ingress-refused", inject: func(t *testing.T, f *fixture, _ challenge) {
			t.Helper()
			must(t, f.Worker.StopRouter(t.Context()))
			t.Cleanup(func() { must(t, f.Worker.StartRouter(context.Background(), lab.RouterOptions{})) })
		}},
		{
			name: "router does not respond", finding: "ingress-no-response",
			inject: func(t *testing.T, f *fixture, _ challenge) {
				t.Helper()
				must(t, f.Worker.FreezeRouter())
				t.Cleanup(func() { must(t, f.Worker.ThawRouter()) })
			},
		},
		{
			name: "router without TLS", finding: "ingress-tls-handshake", config: "  scheme: https\n  httpsPort: 1936\n",
			inject: func(*testing.T, *fixture, challenge) {},
		},
	}
}

// redirectFaults returns redirects that the service forwards.
func redirectFaults() []faultCase {
	to := func(name, location string) faultCase {
		return faultCase{
			name: name, finding: "route-redirects-elsewhere",
			inject: func(t *testing.T, f *fixture, _ challenge) {
				t.Helper()
				f.redirectTo(t, location)
			},
		}
	}
	return []faultCase{
		{
			name: "redirect to https", finding: "route-redirects-https", config: "  followRedirects: false\n",
			inject: func(t *testing.T, f *fixture, _ challenge) {
				t.Helper()
				end, err := f.Worker.RedirectToHTTPS(t.Context(), apiName)
				must(t, err)
				t.Cleanup(func() { must(t, end(context.Background())) })
			},
		},
		to("redirect to another path", "http://"+apiName+"/login"),
		to("redirect to another port", "https://"+apiName+":8443/"),
		to("redirect to another scheme", "ftp://"+apiName+"/"),
		to("redirect to an internal name", "https://router.internal/"),
		{
			name: "redirect to itself", finding: "route-redirects-elsewhere",
			inject: func(t *testing.T, f *fixture, c challenge) {
				t.Helper()
				f.redirectTo(t, "http://"+apiName+acmePath+c.Token)
			},
		},
	}
}

// networkFaults returns faults before the service gets a request.
func networkFaults() []faultCase {
	filter := func(name, finding, rule string) faultCase {
		return faultCase{
			name: name, finding: finding, unseen: true, limit: 2 * time.Second,
			inject: func(t *testing.T, f *fixture, _ challenge) {
				t.Helper()
				f.addTable(t, f.holder(), "fault", "	chain prerouting {\n		type filter hook prerouting priority raw;\n		"+rule+
					"\n	}")
			},
		}
	}
	secondary := filter("some clients are refused", "packet-dropped", "ip saddr "+remotes4+
		" tcp dport 80 reject with tcp reset")
	reject := secondary.inject
	secondary.inject = func(t *testing.T, f *fixture, c challenge) {
		t.Helper()
		reject(t, f, c)
		f.routeToBackend(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(c.Key)) })
		f.separateNetworks(t)
	}
	// boulder's limit of a connection attempt is 10 s.
	drop := filter("packets are dropped", "packet-dropped", "tcp dport 80 drop")
	drop.limit = caTimeout
	return []faultCase{
		drop,
		filter("connections are refused", "service-not-running", "tcp dport 80 reject with tcp reset"),
		filter("no host has the VIP", "vip-unassigned", "tcp dport 80 reject with icmp host-unreachable"),
		filter("long packets are dropped", "path-mtu-black-hole", "tcp dport 80 meta length > 100 drop"),
		filter("connections are reset", "", "tcp dport 80 tcp flags & (syn | fin | psh) == psh reject with tcp reset"),
		secondary,
	}
}

// dnsFaults returns faults of the name.
func dnsFaults() []faultCase {
	return []faultCase{
		{name: "no address", finding: "dns-no-record", unseen: true, inject: func(t *testing.T, f *fixture, _ challenge) {
			t.Helper()
			must(t, f.Internet.SetName(t.Context(), apiName, lab.Pair{}))
		}},
		// Another name, because it stays broken.
		{
			name: "DNS server fails", finding: "dns-server-fails", unseen: true, host: "failing." + domain,
			inject: func(t *testing.T, f *fixture, c challenge) {
				t.Helper()
				must(t, f.Internet.FailName(t.Context(), c.Name))
			},
		},
	}
}
