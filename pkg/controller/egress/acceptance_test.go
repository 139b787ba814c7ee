// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
)

func configuration(t *testing.T, proxy string, endpoints ...string) egress.Configuration {
	t.Helper()
	s, err := egress.FromConfiguration(proxy, "", "")
	must(t, err)
	return egress.Configuration{Settings: s, Endpoints: endpoints}
}

// TestAcceptance runs through the states of several configurations.
func TestAcceptance(t *testing.T) {
	t.Parallel()
	var a acceptance
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	expectAccepted := func(want string) {
		t.Helper()
		s := a.effective()
		if got := s.Settings.RedactedHTTP(); got != want {
			t.Errorf("accepted is %q, want %q", got, want)
		}
	}
	expectAccepted("")

	// Without endpoints it is accepted immediately.
	if !a.request(configuration(t, "http://one"), now) || a.pending() {
		t.Error("a setting without endpoints waits")
	}
	expectAccepted("http://one")
	if a.request(configuration(t, "http://one"), now) {
		t.Error("the same configuration is a change")
	}

	// With endpoints it waits for all of them, with increasing delays.
	two := configuration(t, "http://two", "http://a.test", "http://b.test")
	if a.request(two, now) || !a.pending() {
		t.Error("a setting with endpoints is accepted at once")
	}
	var waits []time.Duration
	for range 9 {
		if a.recordProbe(a.spec, []string{"", "it is silent"}, now) {
			t.Error("one of two answers is enough")
		}
		expectAccepted("http://one")
		waits = append(waits, a.nextProbe.Sub(now))
		if !a.endpoints[0].OK || a.endpoints[1].OK || a.endpoints[1].Error != "it is silent" {
			t.Errorf("%+v", a.endpoints)
		}
		now = a.nextProbe
	}
	want := []time.Duration{
		time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute,
		time.Minute, time.Minute,
	}
	if !slices.Equal(waits, want) {
		t.Errorf("the waits are %v, want %v", waits, want)
	}
	if !a.recordProbe(a.spec, []string{"", ""}, now) || a.pending() {
		t.Error("it is not accepted")
	}
	expectAccepted("http://two")

	// Results for an earlier configuration are ignored.
	a.request(configuration(t, "http://three", "http://a.test"), now)
	three := a.spec
	a.request(configuration(t, "http://four", "http://a.test"), now)
	if a.recordProbe(three, []string{""}, now) {
		t.Error("an answer for another setting counts")
	}
	expectAccepted("http://two")

	// A refused file does not change the accepted configuration.
	four := a.spec
	a.reject(errors.New("line 1: no"), now)
	if a.recordProbe(four, []string{""}, now) || a.pending() || a.spec != nil || a.specSince != now {
		t.Errorf("a refused setting is tried: %+v", a)
	}
	a.reject(errors.New("line 1: no"), now.Add(time.Minute))
	if a.specSince != now {
		t.Error("the same rejection starts again")
	}
	expectAccepted("http://two")

	// Back to the accepted configuration: no request.
	if a.request(two, now) || a.pending() || !a.endpoints[1].OK {
		t.Errorf("%+v", a)
	}
	// Another CA or endpoint is another configuration.
	other := two
	other.Roots = [][]byte{{1}}
	if a.request(other, now); !a.pending() {
		t.Error("another CA is accepted unseen")
	}
	other = two
	other.Endpoints = []string{"http://c.test"}
	if a.request(other, now); !a.pending() {
		t.Error("other endpoints are accepted unasked")
	}
	// No proxy is accepted immediately, with or without endpoints.
	if !a.request(egress.Configuration{Endpoints: []string{"http://a.test"}}, now) || a.pending() {
		t.Error("no proxy waits")
	}
	expectAccepted("")

	// A configuration of a former process is not requested again.
	at := now.Add(-time.Hour)
	a = acceptance{accepted: &two, acceptedAt: at}
	if a.request(two, now) || a.pending() || !a.endpoints[0].Checked.Equal(at) {
		t.Errorf("%+v", a)
	}
}
