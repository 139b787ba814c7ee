// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/debian"
	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestHAProxy32 runs the router with HAProxy 3.2 where it differs from 2.6. The service gives its own
// answer to requests that 3.2 rejects, and forwards those that only the router rejects.
func TestHAProxy32(t *testing.T) {
	p := newFixture(t)
	program, err := debian.HAProxy(t.Context(), filepath.Join(host.Repository(), ".cache"))
	must(t, err)
	text, err := p.holder().Run(t.Context(), program[0], append(program[1:], "-v")...)
	must(t, err)
	var version float64
	if _, err := fmt.Sscanf(text, "HAProxy version %f", &version); err != nil || version < 3.2 {
		t.Fatalf("version %v, want 3.2 or later: %v: %s", version, err, text)
	}
	challenge := func(token, fields string) string {
		return "GET " + acmePath + token + " HTTP/1.1\r\n" + fields + "Connection: close\r\n\r\n"
	}
	const own = "Host: " + apiName + "\r\n"
	large := "large-head-" + strings.Repeat("a", 5000)
	for version, router := range map[string]lab.RouterOptions{
		"2.6": {SmallHeads: true}, "3.2": {SmallHeads: true, Program: program},
	} {
		t.Run(version, func(t *testing.T) {
			p.restartRouter(t, router)
			s := p.serve(t, directConfig("")(t, p))
			for _, tt := range []struct {
				name, head    string
				before, after int // status of HAProxy 2.6 and 3.2
				service       int // status of the service itself; 0: it forwards the request
			}{
				{"usual", challenge("usual", own), 503, 503, 0},
				{"a space in Host", challenge("b", "Host: api lab.test\r\n"), 503, 400, 400},
				{"a path in Host", challenge("c", "Host: "+apiName+"/x\r\n"), 503, 400, 400},
				{"a user in Host", challenge("d", "Host: a@"+apiName+"\r\n"), 503, 400, 400},
				{"not ASCII in Host", challenge("e", "Host: \u00e4"+apiName+"\r\n"), 503, 400, 400},
				{"an empty Transfer-Encoding", challenge("f", own+"Transfer-Encoding:\r\n"), 400, 400, 501},
				{"a large field", challenge("g", own+"X-A: "+strings.Repeat("a", 9000)+"\r\n"), 400, 431, 431},
				{"a large target", challenge(large, own), 400, 431, 0},
			} {
				want := tt.before
				if router.Program != nil {
					want = tt.after
				}
				for address, status := range map[string]int{
					web(p.Ingress.V4): want, web(p.API.V4): cmp.Or(tt.service, want),
				} {
					answer, err := p.Internet.Raw(t.Context(), address, tt.head)
					// The router's page for 503 is HTTP/1.0.
					if _, rest, _ := strings.Cut(answer, " "); err != nil || !strings.HasPrefix(rest, fmt.Sprint(status, " ")) {
						t.Errorf("%s at %s: %.100q, %v, want %d", tt.name, address, answer, err, status)
					}
				}
				if tt.head != challenge(large, own) {
					continue
				}
				if c := awaitChallenge(t, s, large); c.Status != want || c.Cause != "" {
					t.Errorf("the status of the service: %+v, want %d without a cause", c, want)
				}
				journal, err := os.ReadFile(s.Log)
				must(t, err)
				if text := fmt.Sprintf("got %d from %s", want, web(p.Ingress.V4)); !strings.Contains(string(journal), text) {
					t.Errorf("no %q in the journal:\n%s", text, journal)
				}
			}
		})
	}
	newer := lab.RouterOptions{Program: program}
	p.runDiagnoses(t, []diagnosisCase{
		{name: "no route", router: newer, config: directConfig(""), cause: "route-missing", status: 503},
		{
			name: "the PROXY protocol v1", router: newer, config: directConfig("  proxyProtocol: v1\n"),
			cause: "ingress-proxy-protocol", finds: "ingress-proxy-protocol", status: 400,
		},
		{
			name: "the PROXY protocol v2", router: newer, config: directConfig("  proxyProtocol: v2\n"),
			cause: "ingress-proxy-protocol", finds: "ingress-proxy-protocol", status: 400,
		},
	})
}
