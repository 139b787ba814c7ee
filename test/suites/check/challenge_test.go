// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// requestChallenge requests a challenge for the API's name and waits until the holder's
// service has counted it.
func (c *cluster) requestChallenge(agent, token string, status int) {
	c.t.Helper()
	c.requestChallengeFor(apiName, agent, token, status)
}

// requestChallengeFor is requestChallenge for another name or an address of the API VIP.
func (c *cluster) requestChallengeFor(host, agent, token string, status int) {
	c.t.Helper()
	answer, err := c.Internet.GetAs(c.t.Context(), agent, "http://"+host+acmePath+token)
	must(c.t, err)
	if answer.Status != status {
		c.t.Errorf("status %d, want %d", answer.Status, status)
	}
	_, err = c.Services[0].Await(c.t.Context(), "the challenge", func(s lab.Status) error {
		n := len(s.Challenges.Recent)
		if n == 0 || s.Challenges.Recent[n-1].TokenPrefix != token[:8] {
			return fmt.Errorf("not counted yet: %+v", s.Challenges)
		}
		return nil
	})
	must(c.t, err)
}

// TestSelfCheckMissing withholds the requests of cert-manager, as the default network policy
// of cert-manager-operator does. The CA would get the key, but cert-manager never starts its validation.
func TestSelfCheckMissing(t *testing.T) {
	c := healthy(t, nil)
	c.startSolver(token)
	check := func(want, last string) lab.CheckReport {
		t.Helper()
		ids := []string{}
		if want != "" {
			ids = append(ids, want)
		}
		r := c.expectFindings(c.holder(), ids, "--token", token)
		wantTrace(t, r, "dns ok", "dns ok", "connect ok", "proxy ok", "connect ok", "proxy ok", "ingress ok", "ingress ok",
			"solver ok", "solver ok", last)
		return r
	}
	r := check("self-check-missing", "cert-manager problem")
	c.expectText(r, "self-check-missing", "The challenge evaGxfAD… is served at ", c.API.V4.String(), c.API.V6.String(),
		"neither cert-manager nor a CA has requested it within 11s",
		`With defaultNetworkPolicy: "true"`, "explain self-check-missing")
	if last := r.Trace[len(r.Trace)-1]; !strings.Contains(last.Text, "neither cert-manager nor a CA has requested it within 11s") {
		t.Errorf("last step: %+v", last)
	}
	// Only the log of the node that holds the VIPs has the requests. Without a token, nothing
	// shows that a challenge is pending.
	c.expectFindings(c.standby(), []string{}, "--token", token)
	c.expectFindings(c.holder(), []string{})
	c.requestChallenge(lab.SelfCheckAgent, token, 200)
	r = check("", "cert-manager ok")
	if last := r.Trace[len(r.Trace)-1]; !strings.Contains(last.Text, "cert-manager got status 200") {
		t.Errorf("last step: %+v", last)
	}
}

// TestRecentChallenges holds that recent requests of cert-manager's self check explain a
// failure. Requests of other clients and earlier checks do not.
func TestRecentChallenges(t *testing.T) {
	c := healthy(t, nil)
	const userAgent = "Mozilla/5.0"
	failing := func(name string, status int, inject func(*cluster), want []string, texts map[string]string) faultCase {
		return faultCase{name: name, on: holder, want: want, texts: texts, inject: func(c *cluster) {
			inject(c)
			c.requestChallenge(lab.SelfCheckAgent, "selfcheck-of-"+name, status)
		}}
	}
	c.runFaults(t, []faultCase{
		{
			name: "a made-up token of another client", on: holder, want: []string{},
			inject: func(c *cluster) { c.requestChallenge(userAgent, "scanner123-and-more", 503) },
		},
		{
			name: "an earlier check of an unknown token", on: holder, want: []string{},
			inject: func(c *cluster) {
				c.expectFindings(c.holder(), []string{"route-missing"}, "--token", "made-up-token-of-a-check")
			},
		},
		failing("no-route", 503, func(*cluster) {}, []string{"route-missing"},
			map[string]string{"route-missing": "for the challenge selfchec… of cert-manager"}),
		failing("error", 500, func(c *cluster) {
			c.startWebServer(500, "text/plain", "oops")
			c.addRoute(acmePath+"selfcheck-of-error", webPort)
		}, []string{"response-status"}, map[string]string{"response-status": "answered 500"}),
		failing("redirect", 302, func(c *cluster) {
			end, err := c.Worker.RedirectElsewhere(c.t.Context(), apiName, "https://elsewhere.lab.test/", false)
			must(c.t, err)
			c.onCleanup(end)
		}, []string{"route-redirects-elsewhere"}, map[string]string{"route-redirects-elsewhere": "of cert-manager"}),
		failing("claimed", 404, func(c *cluster) {
			c.startWebServer(404, "text/html", "<html>not here</html>")
			c.addRoute("", webPort)
		}, []string{"name-already-served"}, map[string]string{"name-already-served": "of cert-manager"}),
		{
			name: "well again", on: holder, want: []string{},
			inject: func(c *cluster) {
				c.startSolver(token)
				c.requestChallenge(lab.SelfCheckAgent, token, 200)
			},
		},
	})
}

// TestRouteForAddress requests challenges for the addresses of the API VIP. The router has
// no route for them, as on OpenShift, whatever the Certificate.
func TestRouteForAddress(t *testing.T) {
	c := healthy(t, nil)
	for token, host := range map[string]string{"selfcheck-of-IPv4": c.API.V4.String(), "selfcheck-of-IPv6": "[" +
		c.API.V6.String() + "]"} {
		c.requestChallengeFor(host, "Mozilla/5.0", "scanner1-"+token, 503)
		c.requestChallengeFor(host, lab.SelfCheckAgent, token, 503)
		r := c.expectFindings(c.holder(), []string{"route-missing-for-address"})
		c.expectText(r, "route-missing-for-address", "answered 503 to a challenge for an IP address.", "for the challenge "+
			token[:8]+"… of cert-manager", "Remove ipAddresses from the Certificate")
	}
}
