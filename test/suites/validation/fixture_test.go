// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// The names have a public suffix, because boulder follows redirects only to such names.
const (
	domain  = "cluster.example.com"
	apiName = "api." + domain
	appName = "solver.apps." + domain // of the ingress VIP
)

const acmePath = "/.well-known/acme-challenge/"

// challenge and result are the input and output of support/boulder.
type challenge struct {
	Name  string `json:"name"`
	Token string `json:"token"`
	Key   string `json:"key"`
}

type result struct {
	Problem   string   `json:"problem"`
	URLs      []string `json:"urls"`
	Addresses []string `json:"addresses"`
	Seconds   float64  `json:"seconds"`
}

// newChallenge returns a challenge with a token of the length that CAs use.
func newChallenge(name, token string) challenge {
	token += strings.Repeat("-", 43-len(token))
	return challenge{Name: name, Token: token, Key: token + "." + strings.Repeat("k", 43)}
}

// fixture is a lab with the VIPs in place.
type fixture struct {
	*lab.Lab
}

func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root: network namespaces")
	}
	f := &fixture{shared.lab}
	must(tb, f.AwaitVIPs(tb.Context()))
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Log(f.Logs())
		}
	})
	return f
}

// holder returns the control-plane node that holds the API VIPs.
func (f *fixture) holder() *lab.Node { return f.ControlPlane[0].Node }

// restartRouter restarts the router with options, without routes.
func (f *fixture) restartRouter(t *testing.T, o lab.RouterOptions) {
	t.Helper()
	must(t, f.Worker.StopRouter(t.Context()))
	must(t, f.Worker.StartRouter(t.Context(), o))
}

// secureRouter restarts the router with a certificate for the apps domain.
func (f *fixture) secureRouter(t *testing.T) {
	t.Helper()
	identity, err := shared.authority.Issue(lab.ServerCertificate{Names: []string{"*.apps." + domain}})
	must(t, err)
	f.restartRouter(t, lab.RouterOptions{Secure: &identity})
}

// upstream returns the section upstream of a configuration with additional lines.
func (f *fixture) upstream(t *testing.T, lines string) string {
	t.Helper()
	path := filepath.Join(f.holder().Dir, "ca-bundle.crt")
	must(t, os.WriteFile(path, lab.Bundle(shared.authority), 0o600))
	return fmt.Sprintf("upstream:\n%s  trustedCA: %s\n  verifyNames: [\"*.apps.%s\"]\n", lines, path, domain)
}

// serve runs the service on the holder until the test ends, and waits until it serves.
func (f *fixture) serve(tb testing.TB, config string) *lab.Service {
	tb.Helper()
	s, err := f.holder().StartService(tb.Context(), lab.ServiceOptions{
		Binary: shared.binary,
		Config: f.holder().DefaultConfig() + config,
	})
	must(tb, err)
	tb.Cleanup(func() { must(tb, s.End(context.Background())) })
	_, err = s.Await(tb.Context(), "Serving", func(seen lab.Status) error {
		switch c := seen.Condition(); c.Reason {
		case "Serving":
			return nil
		case "InvalidConfig":
			tb.Fatal(c.Message)
			return nil
		default:
			return fmt.Errorf("reason is %s: %s", c.Reason, c.Message)
		}
	})
	must(tb, err)
	return s
}

// validate makes the CA validate all challenges at once, and returns the results in order.
func (f *fixture) validate(tb testing.TB, limit time.Duration, all ...challenge) []result {
	tb.Helper()
	var lines strings.Builder
	for _, c := range all {
		must(tb, json.NewEncoder(&lines).Encode(c))
	}
	_, trust := f.Internet.Directory()
	path := filepath.Join(f.Internet.Dir, "doh.crt")
	must(tb, os.WriteFile(path, trust, 0o600))
	out, err := f.Internet.Input(tb.Context(), lines.String(), shared.boulder,
		"-dns", f.Internet.DNSOverHTTPS(), "-trust", path, "-timeout", limit.String())
	must(tb, err)
	var results []result
	for line := range strings.Lines(out) {
		var r result
		must(tb, json.Unmarshal([]byte(line), &r))
		results = append(results, r)
	}
	if len(results) != len(all) {
		tb.Fatalf("%d results for %d challenges: %s", len(results), len(all), out)
	}
	return results
}

// Networks of the remote perspectives, which the gateway routes to the internet.
const (
	remotes4 = "198.18.0.0/15"
	remotes6 = "fd4e:5f2a:9c0f::/48"
)

// separateNetworks makes the connections of the CA leave from six networks in turn, until the
// test ends: the internet's own network, and the networks of five remote perspectives. The
// first connection leaves from its own.
func (f *fixture) separateNetworks(tb testing.TB) {
	tb.Helper()
	own := f.Internet.Addresses
	for prefix, via := range map[string]string{remotes4: own.V4.String(), remotes6: own.V6.String()} {
		_, err := f.Gateway.Run(tb.Context(), "ip", "route", "replace", prefix, "via", via)
		must(tb, err)
	}
	f.addTable(tb, f.Internet.Node, "perspectives", fmt.Sprintf(`	chain postrouting {
		type nat hook postrouting priority srcnat;
		meta nfproto ipv4 tcp dport { 80, 443 } snat ip to numgen inc mod 6 map {
			0 : %s, 1 : 198.18.1.1, 2 : 198.18.2.1, 3 : 198.18.3.1, 4 : 198.18.4.1, 5 : 198.18.5.1 }
		meta nfproto ipv6 tcp dport { 80, 443 } snat ip6 to numgen inc mod 6 map {
			0 : %s, 1 : fd4e:5f2a:9c0f:1::1, 2 : fd4e:5f2a:9c0f:2::1,
			3 : fd4e:5f2a:9c0f:3::1, 4 : fd4e:5f2a:9c0f:4::1, 5 : fd4e:5f2a:9c0f:5::1 }
	}`, own.V4, own.V6))
}

// addTable adds an nftables table to a node until the test ends.
func (f *fixture) addTable(tb testing.TB, n *lab.Node, name, chains string) {
	tb.Helper()
	_, err := n.Input(tb.Context(), "table inet "+name+" {\n"+chains+"\n}\n", "nft", "-f", "-")
	must(tb, err)
	tb.Cleanup(func() {
		_, err := n.Run(context.Background(), "nft", "delete", "table", "inet", name)
		must(tb, err)
	})
}
