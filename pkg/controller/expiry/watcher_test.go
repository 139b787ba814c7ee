// SPDX-License-Identifier: Apache-2.0

package expiry

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/challengelog"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// watcherTest is an expiry watcher in a synctest bubble, with a fake API server.
type watcherTest struct {
	*Watcher

	start           time.Time
	hosts, apiNames []string
	apiNamesErr     error
	vips            []report.VIP

	testMu  sync.Mutex
	queried []string // when, and what
	answer  func(protocol.CertificateRequest) report.Certificate
	fail    error
	output  strings.Builder
	known   []report.Certificate // the last output
}

// Write implements io.Writer for the log.
func (w *watcherTest) Write(line []byte) (int, error) {
	w.testMu.Lock()
	defer w.testMu.Unlock()
	return w.output.Write(line)
}

// lines counts the lines of the log with a text.
func (w *watcherTest) lines(part string) int {
	w.testMu.Lock()
	defer w.testMu.Unlock()
	return strings.Count(w.output.String(), part)
}

// change changes the fake API server.
func (w *watcherTest) change(f func()) {
	w.testMu.Lock()
	defer w.testMu.Unlock()
	f()
}

func (w *watcherTest) lastKnown() (known []report.Certificate) {
	w.change(func() { known = w.known })
	return known
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func withWatcher(t *testing.T, test func(w *watcherTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &watcherTest{start: time.Now()}
		w.answer = func(q protocol.CertificateRequest) report.Certificate {
			return report.Certificate{
				Address: q.Addr.String(), Name: q.Name, Serial: "1", NotBefore: w.start,
				NotAfter: w.start.AddDate(0, 0, 90),
			}
		}
		w.Watcher = NewWatcher(slog.New(slog.NewTextHandler(w, nil)), CheckInterval)
		w.readCertificates = func(_ context.Context, questions []protocol.CertificateRequest) ([]report.Certificate, error) {
			w.testMu.Lock()
			defer w.testMu.Unlock()
			found, names := []report.Certificate{}, []string{}
			for _, q := range questions {
				names = append(names, q.Addr.Addr().String()+"/"+q.Name)
				found = append(found, w.answer(q))
			}
			w.queried = append(w.queried, time.Since(w.start).String()+" "+strings.Join(names, " "))
			return found, w.fail
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = w.Run(ctx, func(known []report.Certificate) { w.change(func() { w.known = known }) }) })
		test(w)
		cancel()
		running.Wait()
	})
}

func (w *watcherTest) configure(hosts ...string) {
	w.hosts = hosts
	w.Observe(w.hosts, w.apiNames, w.apiNamesErr, w.vips)
}

func (w *watcherTest) setVIPs(vips ...string) {
	var all []report.VIP
	for _, v := range vips {
		all = append(all, report.VIP{Address: netip.MustParseAddr(v), State: report.VIPStandby})
	}
	w.vips = all
	w.Observe(w.hosts, w.apiNames, w.apiNamesErr, w.vips)
}

func (w *watcherTest) advance(d time.Duration) (asked []string) {
	<-time.After(d)
	synctest.Wait()
	w.change(func() { asked, w.queried = w.queried, nil })
	return asked
}

func TestCertificateReadSchedule(t *testing.T) {
	withWatcher(t, func(w *watcherTest) {
		check := func(what string, want, got []string) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		check("without VIPs", nil, w.advance(time.Hour+time.Millisecond))
		w.setVIPs("192.0.2.5", "2001:db8::5")
		check("VIPs that arrive", []string{"1h0m10s 192.0.2.5/ 2001:db8::5/"}, w.advance(time.Minute))
		check("every hour", []string{"2h0m10s 192.0.2.5/ 2001:db8::5/", "3h0m10s 192.0.2.5/ 2001:db8::5/"},
			w.advance(2*time.Hour))
		w.setVIPs("2001:db8::5", "192.0.2.5")
		check("another order", nil, w.advance(30*time.Minute))
		w.configure("api.example.com")
		check("another name",
			[]string{"3h31m10s 192.0.2.5/ 192.0.2.5/api.example.com 2001:db8::5/ 2001:db8::5/api.example.com"},
			w.advance(time.Minute))

		if n := len(w.lastKnown()); n != 4 {
			t.Errorf("%d certificates in the report", n)
		}
		w.setVIPs()
		check("no VIPs any more", []string{"3h32m10s "}, w.advance(3*time.Hour))
		if n := len(w.lastKnown()); n != 0 {
			t.Errorf("%d certificates in the report without VIPs", n)
		}
	})
}

// An API server that does not answer is queried again sooner.
func TestCertificateReadRetry(t *testing.T) {
	withWatcher(t, func(w *watcherTest) {
		w.change(func() {
			w.answer = func(q protocol.CertificateRequest) report.Certificate {
				return report.Certificate{Address: q.Addr.String(), Name: q.Name, Error: "refused"}
			}
		})
		w.setVIPs("192.0.2.5")
		if diff := cmp.Diff([]string{"10s 192.0.2.5/", "5m10s 192.0.2.5/", "10m10s 192.0.2.5/"},
			w.advance(11*time.Minute)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if n := w.lines("does not present a certificate"); n != 1 {
			t.Errorf("%d lines about it", n)
		}
	})
}

// A read that fails keeps the previous results, and is logged once.
func TestCertificateReadFails(t *testing.T) {
	withWatcher(t, func(w *watcherTest) {
		w.setVIPs("192.0.2.5")
		w.advance(time.Minute)
		w.change(func() { w.fail = errors.New("no process") })
		w.advance(5 * time.Hour)
		if n := w.lines("no process"); n != 1 {
			t.Errorf("%d lines about it", n)
		}
		if all := w.lastKnown(); len(all) != 1 || all[0].Serial != "1" {
			t.Errorf("in the report: %+v", all)
		}
	})
}

func TestRequestsAreBounded(t *testing.T) {
	withWatcher(t, func(w *watcherTest) {
		var hosts, vips []string
		for i := range 100 {
			hosts = append(hosts, "host"+strconv.Itoa(i))
			vips = append(vips, "192.0.2."+strconv.Itoa(i))
		}
		w.configure(hosts...)
		w.setVIPs(vips...)
		if all, err := w.requests(); len(all) != maxVIPs*maxNames || err != nil {
			t.Errorf("%d requests, %v", len(all), err)
		}
	})
}

// Without hosts the API's name of this host is used. Without it, one line describes the effect.
func TestAPIServerName(t *testing.T) {
	withWatcher(t, func(w *watcherTest) {
		const unknown = "the API's name is not known"
		check := func(what string, want []string, lines int) {
			t.Helper()
			asked := w.advance(time.Minute)
			for i, one := range asked {
				_, asked[i], _ = strings.Cut(one, " ")
			}
			if diff := cmp.Diff(want, asked); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
			if n := w.lines(unknown); n != lines {
				t.Errorf("%s: %d lines\n%s", what, n, &w.output)
			}
		}
		w.apiNamesErr = errors.New("no such file")
		w.setVIPs("192.0.2.5")
		check("no name", []string{"192.0.2.5/"}, 1)
		w.advance(3 * time.Hour)
		check("after hours", nil, 1)
		w.apiNames, w.apiNamesErr = []string{"api.ocp.example.com"}, nil
		w.configure()
		check("a name", []string{"192.0.2.5/ 192.0.2.5/api.ocp.example.com"}, 1)
		w.configure("192.0.2.5", "api.example.com")
		check("hosts", []string{"192.0.2.5/ 192.0.2.5/api.example.com"}, 1)
		w.configure("192.0.2.5")
		check("an address alone", []string{"192.0.2.5/ 192.0.2.5/api.ocp.example.com"}, 1)
		w.apiNames, w.apiNamesErr = nil, errors.New("no such file")
		w.configure("192.0.2.5")
		check("no name again", []string{"192.0.2.5/"}, 2)
		w.configure("192.0.2.5", "api.example.com")
		check("hosts without a name", []string{"192.0.2.5/ 192.0.2.5/api.example.com"}, 2)
	})
}

// After a challenge for a watched name, the certificates are read until they change
// or the attempt has failed. The journal and the report then have the failed attempt.
func TestFailedRenewal(t *testing.T) {
	withWatcher(t, func(w *watcherTest) {
		const api = "api.example.com"
		ended := func(token uint64) {
			now := time.Now()
			w.ObserveAttempt(challengelog.Attempt{
				Name: api, Token: token, Started: now.Add(-2 * time.Minute),
				Ended: now.Add(-time.Minute), Text: "the CA got 503", Cause: "route-missing",
			})
		}
		reads := func(after time.Duration) (at []string) {
			t.Helper()
			start := time.Since(w.start)
			for _, one := range w.advance(after) {
				when, _, _ := strings.Cut(one, " ")
				d, err := time.ParseDuration(when)
				must(t, err)
				at = append(at, (d - start).String())
			}
			return at
		}
		first := w.answer
		w.configure(api)
		w.setVIPs("192.0.2.5")
		w.advance(time.Minute)
		ended(1)
		if at := reads(30 * time.Minute); len(at) != 0 {
			t.Errorf("before the renewal is due: read after %v", at)
		}
		w.change(func() {
			w.answer = func(q protocol.CertificateRequest) report.Certificate {
				c := first(q)
				c.NotBefore, c.NotAfter = c.NotBefore.AddDate(0, 0, -61), c.NotAfter.AddDate(0, 0, -61)
				return c
			}
		})
		w.advance(2 * time.Hour)
		ended(2)
		at := reads(31 * time.Minute)
		if diff := cmp.Diff([]string{"5s", "5m5s", "10m5s", "15m5s"}, at); diff != "" {
			t.Errorf("after an attempt (-want +got):\n%s", diff)
		}
		const line = "level=WARN msg=\"an attempt to renew the certificate that the API server presents on 192.0.2.5:6443 " +
			"for api.example.com failed: the CA got 503; failed attempts observed by this host: 1; "
		if w.lines(line) != 1 || w.lines("event=renewal-failed") != 1 ||
			w.lines("cause=route-missing count=1 attempts_left=26") != 1 {
			t.Errorf("in the journal:\n%s", &w.output)
		}
		if all := w.lastKnown(); len(all) != 2 || all[0].FailedRenewals != 0 || all[1].FailedRenewals != 1 ||
			all[1].FirstFailure.IsZero() {
			t.Errorf("in the report: %+v", all)
		}
		w.change(func() { w.answer = first })
		ended(3)
		if at := reads(31 * time.Minute); len(at) != 1 {
			t.Errorf("after an attempt that succeeds: read after %v", at)
		}
		if all := w.lastKnown(); all[1].FailedRenewals != 0 {
			t.Errorf("after the renewal: %+v", all)
		}
		for token := range uint64(1000) {
			ended(token)
		}
		if len(w.attempts) > maxNewAttempts {
			t.Errorf("%d attempts wait", len(w.attempts))
		}
	})
}
