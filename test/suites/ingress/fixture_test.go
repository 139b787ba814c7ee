// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// apiName is the only name in hosts.
const apiName = "api.lab.test"

const acmePath = "/.well-known/acme-challenge/"

// fixture is a lab with the VIPs in place, and with the router and the egress proxy as the
// test configures them.
type fixture struct {
	*lab.Lab
}

// newFixture waits until the VIPs are in place.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	p := &fixture{Lab: shared.lab}
	must(t, p.AwaitVIPs(t.Context()))
	must(t, p.Internet.SetName(t.Context(), apiName, p.API))
	must(t, p.Internet.SetName(t.Context(), lab.EgressName, p.Egress.Addresses))
	must(t, p.holder().UseDNS())
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.Logs())
		}
	})
	return p
}

// holder returns the control-plane node that holds the API VIPs.
func (p *fixture) holder() *lab.Node { return p.ControlPlane[0].Node }

// restartRouter restarts the router with options.
func (p *fixture) restartRouter(t *testing.T, o lab.RouterOptions) {
	t.Helper()
	must(t, p.Worker.StopRouter(t.Context()))
	must(t, p.Worker.StartRouter(t.Context(), o))
}

// startEgressProxy starts the egress proxy. By default it resolves the API's name to the
// router on the outside network.
func (p *fixture) startEgressProxy(t *testing.T, o lab.EgressOptions) {
	t.Helper()
	if o.Hosts == nil {
		o.Hosts = map[string]lab.Pair{apiName: p.Outside}
	}
	must(t, p.Egress.Start(t.Context(), o))
	t.Cleanup(func() { must(t, p.Egress.Stop(context.Background())) })
}

// appsIdentity returns the router's certificate for the apps domain alone, as OpenShift's
// router presents it for every name.
func (p *fixture) appsIdentity(t *testing.T) *lab.Identity {
	t.Helper()
	return issue(t, shared.pki.intermediate, lab.ServerCertificate{Names: []string{"*.apps." + p.Domain}})
}

func issue(t *testing.T, by *lab.Authority, c lab.ServerCertificate) *lab.Identity {
	t.Helper()
	i, err := by.Issue(c)
	must(t, err)
	return &i
}

// writeHostFile writes a file of the holder by rename and returns its path.
func (p *fixture) writeHostFile(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(p.holder().Dir, name)
	replaceFile(t, path, text)
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	return path
}

// replaceFile replaces a file by rename, as the machine-config-daemon does.
func replaceFile(t *testing.T, path string, text []byte) {
	t.Helper()
	must(t, os.WriteFile(path+".new", text, 0o600))
	must(t, os.Rename(path+".new", path))
}

// serve runs the service on the holder, and waits until it serves or is in one of the other states.
func (p *fixture) serve(t *testing.T, config string, others ...string) *lab.Service {
	t.Helper()
	s := p.launch(t, config)
	_, err := s.Await(t.Context(), "Serving", func(seen lab.Status) error {
		c := seen.Condition()
		if c.Reason == "InvalidConfig" {
			t.Fatal(c.Message)
		}
		if c.Reason != "Serving" && !slices.Contains(others, c.Reason) {
			return fmt.Errorf("reason is %s: %s", c.Reason, c.Message)
		}
		return nil
	})
	must(t, err)
	return s
}

// launch runs the service without waiting for a state.
func (p *fixture) launch(t *testing.T, config string) *lab.Service {
	t.Helper()
	s, err := p.holder().StartService(t.Context(), lab.ServiceOptions{Binary: shared.binary, Config: config})
	must(t, err)
	t.Cleanup(func() { p.stop(t, s) })
	return s
}

func (p *fixture) stop(t *testing.T, s *lab.Service) {
	t.Helper()
	must(t, s.End(context.Background()))
	text, err := os.ReadFile(s.Log)
	must(t, err)
	if strings.Contains(string(text), "DATA RACE") {
		t.Errorf("a data race in the service:\n%s", text)
	}
	left, err := p.holder().HasServiceTable(context.Background())
	if left || err != nil {
		t.Errorf("table left: %t, %v", left, err)
	}
}

// outsideVIPs returns the VIPs of a configuration with an ingress outside the control-plane
// nodes' networks.
func (p *fixture) outsideVIPs() string {
	return fmt.Sprintf("vips:\n  api: [%q, %q]\n  ingress: [%q, %q]\n  testInterval: %v\n",
		p.API.V4, p.API.V6, p.Outside.V4, p.Outside.V6, lab.TestInterval) // check waits for one interval
}

// forEachFamily runs a subtest for each family, with only addresses of that family for the
// API's name.
func (p *fixture) forEachFamily(t *testing.T, do func(t *testing.T, vip netip.Addr)) {
	t.Helper()
	for _, f := range []struct {
		name string
		dns  lab.Pair
		vip  netip.Addr
	}{{"IPv4", lab.Pair{V4: p.API.V4}, p.API.V4}, {"IPv6", lab.Pair{V6: p.API.V6}, p.API.V6}} {
		t.Run(f.name, func(t *testing.T) {
			must(t, p.Internet.SetName(t.Context(), apiName, f.dns))
			do(t, f.vip)
		})
	}
}

// requestChallenge sends one challenge request from the internet to a VIP and returns the
// whole answer.
func (p *fixture) requestChallenge(t *testing.T, vip netip.Addr, token string) string {
	t.Helper()
	text, err := p.challenge(t.Context(), vip, apiName, token)
	must(t, err)
	return text
}

// challenge is requestChallenge for another name, with an error result.
func (p *fixture) challenge(ctx context.Context, vip netip.Addr, name, token string) (string, error) {
	return p.Internet.Raw(ctx, web(vip), "GET "+acmePath+token+" HTTP/1.1\r\nHost: "+name+
		"\r\nAccept: */*\r\nConnection: close\r\n\r\n")
}

func web(a netip.Addr) string { return netip.AddrPortFrom(a, 80).String() }

// awaitChallenge waits until the service has counted the challenge of a token, and returns
// it.
func awaitChallenge(t *testing.T, s *lab.Service, token string) lab.Challenge {
	t.Helper()
	var found lab.Challenge
	_, err := s.Await(t.Context(), "the challenge", func(seen lab.Status) error {
		for _, c := range seen.Challenges.Recent {
			if strings.HasPrefix(token, c.TokenPrefix) {
				found = c
			}
		}
		if found.TokenPrefix == "" {
			return fmt.Errorf("not counted yet: %+v", seen.Challenges)
		}
		return nil
	})
	must(t, err)
	return found
}
