// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
)

func configuration(t *testing.T, proxy string, endpoints ...string) egress.Configuration {
	t.Helper()
	return egress.Configuration{Settings: settings(t, "HTTP_PROXY="+proxy+"\n"), Endpoints: endpoints}
}

// TestAcceptance runs through the states of several configurations.
func TestAcceptance(t *testing.T) {
	t.Parallel()
	var a egress.Acceptance
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	inForce := func(want string) {
		t.Helper()
		s := a.Effective()
		if got := s.Settings.RedactedHTTP(); got != want {
			t.Errorf("in force is %q, want %q", got, want)
		}
	}
	inForce("")

	// Without endpoints it is accepted immediately.
	if !a.SetSpec(configuration(t, "http://one"), now) || a.Pending() {
		t.Error("a setting without endpoints waits")
	}
	inForce("http://one")
	if a.SetSpec(configuration(t, "http://one"), now) {
		t.Error("the same configuration is a change")
	}

	// With endpoints it waits for all of them, with increasing delays.
	two := configuration(t, "http://two", "http://a.test", "http://b.test")
	if a.SetSpec(two, now) || !a.Pending() {
		t.Error("a setting with endpoints is accepted at once")
	}
	var waits []time.Duration
	for range 9 {
		turn, s := a.NextProbe(now)
		if s == nil || !s.Equal(two) {
			t.Fatal("its endpoints are not requested")
		}
		if _, again := a.NextProbe(now); again != nil {
			t.Error("they are requested twice concurrently")
		}
		if a.RecordResults(turn, []string{"", "it is silent"}, now) {
			t.Error("one of two answers is enough")
		}
		inForce("http://one")
		state := a.State()
		waits = append(waits, state.NextProbe.Sub(now))
		if !state.Endpoints[0].OK || state.Endpoints[1].OK || state.Endpoints[1].Error != "it is silent" {
			t.Errorf("%+v", state.Endpoints)
		}
		if _, early := a.NextProbe(state.NextProbe.Add(-1)); early != nil {
			t.Error("it is requested too early")
		}
		now = state.NextProbe
	}
	want := []time.Duration{
		time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute, time.Minute,
	}
	if !slices.Equal(waits, want) {
		t.Errorf("the waits are %v, want %v", waits, want)
	}
	turn, _ := a.NextProbe(now)
	if !a.RecordResults(turn, []string{"", ""}, now) || a.Pending() {
		t.Error("it is not accepted")
	}
	inForce("http://two")

	// Results for an earlier configuration are ignored.
	a.SetSpec(configuration(t, "http://three", "http://a.test"), now)
	turn, _ = a.NextProbe(now)
	a.SetSpec(configuration(t, "http://four", "http://a.test"), now)
	if a.RecordResults(turn, []string{""}, now) {
		t.Error("an answer for another setting counts")
	}
	inForce("http://two")

	// A refused file does not change the accepted configuration, and starts no request.
	turn, _ = a.NextProbe(now)
	a.RejectSpec(errors.New("line 1: no"), now)
	if _, s := a.NextProbe(now.Add(time.Hour)); s != nil || a.RecordResults(turn, []string{""}, now) || a.Pending() {
		t.Error("a refused setting is tried")
	}
	if state := a.State(); state.Rejection == nil || state.Spec != nil || state.SpecSince != now {
		t.Errorf("%+v", state)
	}
	a.RejectSpec(errors.New("line 1: no"), now.Add(time.Minute))
	if a.State().SpecSince != now {
		t.Error("the same rejection starts again")
	}
	inForce("http://two")

	// Back to the accepted configuration: no request.
	if a.SetSpec(two, now) || a.Pending() || !a.State().Endpoints[1].OK {
		t.Errorf("%+v", a.State())
	}
	// Another CA or endpoint is another configuration.
	other := two
	other.Roots = [][]byte{{1}}
	if a.SetSpec(other, now); !a.Pending() {
		t.Error("another CA is accepted unseen")
	}
	other = two
	other.Endpoints = []string{"http://c.test"}
	if a.SetSpec(other, now); !a.Pending() {
		t.Error("other endpoints are accepted unasked")
	}
	// No proxy is accepted immediately, with or without endpoints.
	if !a.SetSpec(egress.Configuration{Endpoints: []string{"http://a.test"}}, now) || a.Pending() {
		t.Error("no proxy waits")
	}
	inForce("")
}

func TestStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	k := egress.NewStore(dir)
	if _, _, err := k.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	s := configuration(t, "http://user:"+secret+"@p.test:3128", "http://a.test")
	s.Roots = [][]byte{{1, 2}, {3}}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 2 {
		if err := k.Save(s, at); err != nil {
			t.Fatal(err)
		}
	}
	got, when, err := k.Load()
	if err != nil || !got.Equal(s) || !when.Equal(at) || got.Settings.Source != "/etc/mco/proxy.env" {
		t.Errorf("got %v %v, %v", got, when, err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	info, err := files[0].Info()
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	path := filepath.Join(dir, files[0].Name())
	for _, broken := range []string{`{"httpProxy":"s3cret`, `{"httpProxy":"socks5://s3cret@p"}`, `{"roots":["s3cret!"]}`, ""} {
		if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := k.Load(); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", broken, err)
		}
	}

	// A configuration of a former process is not requested again.
	var a egress.Acceptance
	a.Restore(got, when)
	if a.SetSpec(s, time.Now()) || a.Pending() || !a.State().Endpoints[0].Checked.Equal(at) {
		t.Errorf("%+v", a.State())
	}
}
