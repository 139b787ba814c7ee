// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// caTimeout is the limit of one validation in boulder's own configuration for tests
// (test/config/ra.json).
const caTimeout = 20 * time.Second

// atOnce is cert-manager's default limit of challenges (--max-concurrent-challenges).
const atOnce = 60

// solveAll starts cert-manager's solver for many names until the test ends.
func (f *fixture) solveAll(t *testing.T, n int) []challenge {
	t.Helper()
	all := make([]challenge, n)
	solvers := make([]*lab.Solver, n)
	t.Cleanup(func() {
		for _, s := range solvers {
			if s != nil {
				must(t, s.Remove(context.Background()))
			}
		}
	})
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for i := range n {
		all[i] = newChallenge(fmt.Sprintf("api-%02d.%s", i, domain), fmt.Sprintf("token-%02d", i))
		group.Go(func() (err error) {
			solvers[i], err = f.Solve(ctx, all[i].Name, all[i].Token, all[i].Key)
			return err
		})
	}
	must(t, group.Wait())
	return all
}

// publish sets the addresses of the names of all challenges.
func (f *fixture) publish(t *testing.T, all []challenge, addresses lab.Pair) {
	t.Helper()
	for _, c := range all {
		must(t, f.Internet.SetName(t.Context(), c.Name, addresses))
	}
}

// expectValid makes the CA validate all challenges at once, and requires that each primary
// perspective sends one request, to the address.
func (f *fixture) expectValid(t *testing.T, all []challenge, address netip.Addr) {
	t.Helper()
	results := f.validate(t, caTimeout, all...)
	for i, r := range results {
		if r.Problem != "" || !slices.Equal(r.Addresses, []string{address.String()}) {
			t.Errorf("%s: %+v, want only %s", all[i].Name, r, address)
		}
	}
}

// TestValid makes the CA validate 60 challenges of cert-manager at once over each family. The
// service follows a redirect to https, which a CA could not.
func TestValid(t *testing.T) {
	f := newFixture(t)
	f.secureRouter(t)
	all := f.solveAll(t, atOnce)
	f.serve(t, f.upstream(t, ""))
	f.separateNetworks(t)
	for _, redirected := range []bool{false, true} {
		name := ""
		if redirected {
			name = ", redirected to https"
			for _, c := range all {
				end, err := f.Worker.RedirectToHTTPS(t.Context(), c.Name)
				must(t, err)
				t.Cleanup(func() { must(t, end(context.Background())) })
			}
		}
		for _, family := range []struct {
			name      string
			addresses lab.Pair
			used      netip.Addr
		}{
			{"IPv4", lab.Pair{V4: f.API.V4}, f.API.V4},
			{"IPv6", lab.Pair{V6: f.API.V6}, f.API.V6},
			{"dual stack", f.API, f.API.V6},
		} {
			t.Run(family.name+name, func(t *testing.T) {
				f.publish(t, all, family.addresses)
				f.expectValid(t, all, family.used)
			})
		}
	}
}

// TestFallback has the CA fall back to IPv4 when the IPv6 address refuses connections.
func TestFallback(t *testing.T) {
	f := newFixture(t)
	all := f.solveAll(t, 1)
	f.serve(t, "")
	f.publish(t, all, f.API)
	f.addTable(t, f.holder(), "refuse",
		"	chain input {\n		type filter hook prerouting priority raw;\n		meta nfproto ipv6 tcp dport 80 reject with "+
			"tcp reset\n	}")
	r := f.validate(t, caTimeout, all...)[0]
	if r.Problem != "" || !slices.Equal(r.Addresses, []string{f.API.V6.String(), f.API.V4.String()}) {
		t.Errorf("%+v", r)
	}
}

// TestRedirectByCA makes the CA follow a redirect that the service forwards: to another name at
// the ingress VIP, over https.
func TestRedirectByCA(t *testing.T) {
	f := newFixture(t)
	f.secureRouter(t)
	f.serve(t, f.upstream(t, ""))
	c := newChallenge(apiName, "redirected")
	must(t, f.Internet.SetName(t.Context(), apiName, f.API))
	must(t, f.Internet.SetName(t.Context(), appName, f.Ingress))
	solver, err := f.Solve(t.Context(), appName, c.Token, c.Key)
	must(t, err)
	t.Cleanup(func() { must(t, solver.Remove(context.Background())) })
	location := "https://" + appName + acmePath + c.Token
	f.redirectTo(t, location)
	r := f.validate(t, caTimeout, c)[0]
	if r.Problem != "" || !slices.Equal(r.URLs, []string{"http://" + apiName + acmePath + c.Token, location}) {
		t.Errorf("%+v, want the redirect followed", r)
	}
}

// redirectTo makes the router redirect every path of the API's name to one location until the
// test ends.
func (f *fixture) redirectTo(t *testing.T, location string) {
	t.Helper()
	end, err := f.Worker.RedirectElsewhere(t.Context(), apiName, location, false)
	must(t, err)
	t.Cleanup(func() { must(t, end(context.Background())) })
}

// TestBeyondLimit has the CA validate 100 challenges at once, from six networks and from
// one, whose 600 requests exceed the default limit of one source. All are valid: requests
// beyond the limit wait for a slot.
func TestBeyondLimit(t *testing.T) {
	f := newFixture(t)
	c := newChallenge(apiName, "requested-often")
	f.routeToBackend(t, func(w http.ResponseWriter, r *http.Request) {
		select { // so that requests of many challenges are in flight at once
		case <-time.After(100 * time.Millisecond):
		case <-r.Context().Done():
		}
		_, _ = w.Write([]byte(c.Key))
	})
	// A request waits for a slot until its head timeout, and the machine may be busy.
	f.serve(t, "limits: {headTimeout: 30s}\n")
	must(t, f.Internet.SetName(t.Context(), apiName, lab.Pair{V4: f.API.V4}))
	many := slices.Repeat([]challenge{c}, 100)
	expect := func(t *testing.T) {
		t.Helper()
		results := f.validate(t, caTimeout, many...)
		for _, r := range results {
			if r.Problem != "" {
				t.Errorf("not valid: %s", r.Problem)
			}
		}
	}
	t.Run("one network", expect)
	t.Run("six networks", func(t *testing.T) {
		f.separateNetworks(t)
		expect(t)
	})
}
