// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	random "math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/mailbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/reconcile"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	probing "github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// selfTestRepetition is the time until a failed self-test is repeated: one lost
	// packet, or a router that restarts, is not a fault.
	selfTestRepetition = 10 * time.Second
	// selfTestFailedInterval is the longest time between two self-tests after a failure,
	// so that its end is reported soon.
	selfTestFailedInterval = 5 * time.Minute

	selfTestConnectTimeout = 3 * time.Second
	// selfTestMargin is the time of a self-test beyond the timeout of the proxy process.
	selfTestMargin = 5 * time.Second
	// selfTestReportTimeout is how long the proxy process takes to report a request.
	selfTestReportTimeout = 2 * time.Second
)

// The status codes of an ingress for a challenge that does not exist: 503 of a router without a
// route, 404 of a solver that does not know the token. The controller does not link net/http.
const (
	statusNotFound           = 404
	statusServiceUnavailable = 503
)

// SelfTester finds out whether challenges reach the ingress while none is pending. While this
// host holds an API VIP and the table redirects, the prober process requests a challenge with a
// random token from port 80 of each VIP. The connection passes the table's output chain, as the
// liveness check's connections do. No solver knows the token, so the ingress answers as for an
// unknown route.
//
// The proxy process receives the token first. It reports the request with that token, at
// that VIP, once, instead of counting it. A client without the token cannot hide a request.
// The prober's result decides whether the test failed. The report of the proxy process
// adds the cause, and shows that the response came through it. Only finding IDs and validated
// parameters of the two processes reach the journal and the status.
//
// The prober binds no address. If a VIP moves just before the connection, another host gets the
// request and counts it as one of `check`. The result is dropped, because the proxy process of
// this host does not report the request.
type SelfTester struct {
	SelfTestDependencies

	pages  pageFetcher
	wake   mailbox.Trigger // the inputs changed
	jitter func(time.Duration) time.Duration

	inputs atomic.Pointer[selfTestInputs]

	// Owned by Run:
	lastID    uint64
	lastError error                    // why the last self-test was not complete
	vips      map[netip.Addr]testedVIP // those with a result, or a first failure
}

// SelfTestDependencies are the functions and values that a SelfTester needs.
type SelfTestDependencies struct {
	Log     *slog.Logger
	Tracker *tracker.Tracker
	Causes  func() cause.Context // see process.Causes
	// Announce reports whether the process that answers clients received the announcement.
	Announce  func(context.Context, protocol.SelfTest) bool
	Redirects func(vip netip.Addr) bool  // reports whether the table redirects port 80 of a VIP
	Reports   <-chan protocol.SelfTested // of the proxy process

	Interval time.Duration // replaces the configured interval, unless it is 0
}

// pageFetcher requests pages without privileges.
type pageFetcher interface {
	fetch(ctx context.Context, q probing.FetchRequest) (*probing.FetchResult, error)
	close()
}

// selfTestInputs is what the reconcile loop passed last.
type selfTestInputs struct {
	interval time.Duration // 0: off
	timeout  time.Duration // of the proxy process
	scheme   config.Scheme
	hosts    []string     // whose challenges are answered; the first one is requested
	vips     []netip.Addr // that this host holds
}

// active reports whether there is anything to test.
func (in selfTestInputs) active() bool { return in.interval > 0 && len(in.vips) > 0 }

// NewSelfTester returns a self-tester. It does nothing before Run.
func NewSelfTester(d SelfTestDependencies) *SelfTester {
	t := &SelfTester{
		SelfTestDependencies: d, pages: &keptProber{}, wake: mailbox.NewTrigger(), jitter: jitter,
		vips: make(map[netip.Addr]testedVIP),
	}
	t.inputs.Store(&selfTestInputs{})
	return t
}

// jitter returns a random duration from three to five quarters of d: hosts that hold a VIP
// at once do not send their requests at once.
func jitter(d time.Duration) time.Duration {
	return d - d/4 + random.N(d/2+1) //nolint:gosec // not a secret
}

// Observe takes the active configuration, the known names of the API, and the API VIPs.
func (t *SelfTester) Observe(c config.Config, apiNames []string, vips []report.VIP) {
	in := selfTestInputs{
		timeout: c.Upstream.Timeout, scheme: c.Upstream.Scheme, hosts: slices.Concat(c.Hosts, apiNames),
	}
	if c.SelfTest.Interval > 0 && c.Enabled() {
		in.interval = cmp.Or(t.Interval, c.SelfTest.Interval)
	}
	// A link-local address is unreachable without the name of a link.
	in.vips = slices.DeleteFunc(reconcile.VIPsInState(vips, report.VIPHeld), netip.Addr.IsLinkLocalUnicast)
	if before := t.inputs.Swap(&in); before.interval != in.interval || !slices.Equal(before.vips, in.vips) {
		t.wake.Fire()
	}
}

// Run makes self-tests until ctx ends.
func (t *SelfTester) Run(ctx context.Context) error {
	defer t.pages.close()
	var before selfTestInputs
	var due time.Time // of the next self-test, while there is anything to test
	for {
		var next <-chan time.Time
		if before.active() {
			next = time.After(time.Until(due))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.wake:
			in := *t.inputs.Load()
			t.retain(in)
			first := time.Now().Add(t.jitter(min(t.nextInterval(in), in.interval/4)))
			switch {
			case !in.active():
				t.pages.close()
			case !before.active(), in.interval != before.interval:
				due = first
			case !slices.Equal(in.vips, before.vips) && first.Before(due):
				due = first // never later than before: VIPs that move must not delay it
			}
			before = in
		case <-next:
			in := *t.inputs.Load()
			t.testAll(ctx, in)
			due = time.Now().Add(t.jitter(t.nextInterval(in)))
		}
	}
}

// retain drops the results of other VIPs, and all while self-tests are off.
func (t *SelfTester) retain(in selfTestInputs) {
	if !in.active() {
		t.lastError = nil
	}
	maps.DeleteFunc(t.vips, func(vip netip.Addr, _ testedVIP) bool {
		return !in.active() || !slices.Contains(in.vips, vip)
	})
	t.publish()
}

func (t *SelfTester) publish() {
	var all []report.SelfTest
	for _, vip := range slices.SortedFunc(maps.Keys(t.vips), netip.Addr.Compare) {
		if v := t.vips[vip]; v.isKnown() {
			all = append(all, v.reported)
		}
	}
	t.Tracker.SetSelfTests(all)
}

// nextInterval returns the time until the next self-test, before jitter.
func (t *SelfTester) nextInterval(in selfTestInputs) time.Duration {
	interval := in.interval
	if t.lastError != nil {
		interval = min(interval, selfTestFailedInterval)
	}
	for _, v := range t.vips {
		switch {
		case v.suspected:
			return min(in.interval/2, selfTestRepetition)
		case v.isKnown() && !v.reported.OK:
			interval = min(interval, selfTestFailedInterval)
		}
	}
	return interval
}

// testAll tests each held VIP.
func (t *SelfTester) testAll(ctx context.Context, in selfTestInputs) {
	host, known := in.host()
	if !known {
		return
	}
	var incomplete error
	for _, vip := range in.vips {
		if !t.Redirects(vip) {
			continue // the state of the service reports that
		}
		result, err := t.test(ctx, vip, in, host)
		if ctx.Err() != nil || !slices.Contains(t.inputs.Load().vips, vip) {
			continue
		}
		if err != nil {
			incomplete = err
			continue
		}
		before := t.vips[vip]
		t.vips[vip] = before.next(vip, result, time.Now())
		t.logChange(before, t.vips[vip], result)
	}
	t.logError(incomplete)
	t.publish()
}

// host returns the host of the request: a name whose challenges are answered. Without a name
// the request is for the VIP's address, for which no route exists. With TLS no self-test is
// possible then, because the ingress's certificate must contain the name.
func (in selfTestInputs) host() (host string, known bool) {
	if len(in.hosts) > 0 {
		return in.hosts[0], true
	}
	return "", in.scheme != config.SchemeHTTPS
}

// test requests a challenge that does not exist from a VIP. The ID of the finding is empty if
// the ingress answered as expected. An error means that there is no result.
func (t *SelfTester) test(
	ctx context.Context, vip netip.Addr, in selfTestInputs, host string,
) (findings.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, in.timeout+selfTestMargin)
	defer cancel()
	t.lastID++
	announced := protocol.SelfTest{ID: t.lastID, VIP: vip, Token: rand.Text()}
	if !t.Announce(ctx, announced) {
		return findings.Finding{}, fmt.Errorf("announce the self-test of %v: no proxy process answers clients", vip)
	}
	request := probing.FetchRequest{
		Addr: netip.AddrPortFrom(vip, 80), Host: host, Path: "/.well-known/acme-challenge/" + announced.Token,
		UserAgent: report.CheckUserAgent, ConnectTimeout: selfTestConnectTimeout,
	}
	if host == "" {
		request.Host = hostOf(vip)
	}
	page, err := t.pages.fetch(ctx, request)
	if err != nil {
		return findings.Finding{}, err
	}
	causes := t.Causes()
	causes.Host = host
	var reported *protocol.SelfTested
	if page.Connected > 0 {
		reported = t.awaitReport(ctx, announced.ID)
	}
	return judgeSelfTest(request, page, reported, causes), nil
}

// hostOf returns an address as a Host field.
func hostOf(addr netip.Addr) string {
	if addr.Is6() {
		return "[" + addr.String() + "]"
	}
	return addr.String()
}

// awaitReport waits for the report of the proxy process, which it sends after the response. It
// returns nil if the request did not reach the process.
func (t *SelfTester) awaitReport(ctx context.Context, id uint64) *protocol.SelfTested {
	ctx, cancel := context.WithTimeout(ctx, selfTestReportTimeout)
	defer cancel()
	for {
		select {
		case r := <-t.Reports:
			if r.ID == id {
				return &r
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// judgeSelfTest compares what the prober process received with what the proxy process
// reports. It returns the finding, or one without an ID if the ingress answered as expected.
func judgeSelfTest(
	q probing.FetchRequest, page *probing.FetchResult, reported *protocol.SelfTested, causes cause.Context,
) findings.Finding {
	unreached := findings.Values{"endpoint": q.Addr.String(), "how": describePage(q, page)}
	switch {
	case reported == nil:
		return findings.New(findings.SelfCheckFails, unreached)
	case reported.Failure != nil && !isUnknownRoute(reported.Failure.Cause):
		return reported.Failure.Finding(causes)
	case page.Cause != "" || page.Status != reported.Status:
		return findings.New(findings.SelfCheckFails, unreached)
	case page.Status == statusServiceUnavailable || page.Status == statusNotFound:
		return findings.Finding{}
	default:
		return findings.New(findings.NameAlreadyServed, findings.Values{
			"name": q.Host, "upstream": reported.Upstream.String(), "how": fmt.Sprintf("status %d", page.Status),
		})
	}
}

// isUnknownRoute reports whether a cause is the ingress's answer for an unknown route, which a
// self-test expects. The name of the request is the VIP's address where the name of the API is
// not known.
func isUnknownRoute(cause string) bool {
	return cause == string(findings.RouteMissing) || cause == string(findings.RouteMissingForAddress)
}

// describePage describes a response. It uses only numbers from the prober.
func describePage(q probing.FetchRequest, page *probing.FetchResult) string {
	if page.Cause == "" {
		return fmt.Sprintf("the response has status %d", page.Status)
	}
	details := cause.Details{Reason: page.Details.Reason, Number: page.Details.Number}
	f := cause.Failure{Cause: page.Cause, Addr: q.Addr, Details: details}
	return f.Message("it", cause.Context{})
}

// testedVIP is the result of the self-tests of one VIP.
type testedVIP struct {
	reported  report.SelfTest
	suspected bool // the last self-test failed, and was not repeated yet
}

// isKnown reports whether there is a result.
func (v testedVIP) isKnown() bool { return !v.reported.Checked.IsZero() }

// next returns the state after a self-test. The first failure only makes the self-test repeat.
func (v testedVIP) next(vip netip.Addr, f findings.Finding, now time.Time) testedVIP {
	ok := f.ID == ""
	if !ok && !v.suspected && (!v.isKnown() || v.reported.OK) {
		return testedVIP{reported: v.reported, suspected: true}
	}
	now = now.UTC().Truncate(time.Second)
	result := report.SelfTest{VIP: vip, OK: ok, Since: now, Checked: now, Cause: string(f.ID), Error: f.Message}
	if v.isKnown() && v.reported.OK == ok {
		result.Since = v.reported.Since
	}
	return testedVIP{reported: result}
}

// logChange logs a failure with a new cause, and the end of a failure.
func (t *SelfTester) logChange(before, after testedVIP, f findings.Finding) {
	is, was := after.reported, before.reported
	vip := slog.String("vip", is.VIP.String())
	switch {
	case after.suspected || !after.isKnown():
	case !is.OK && was.Cause != is.Cause:
		t.Log.Error(fmt.Sprintf("the self-test of port 80 of %v failed twice (%s): %s", is.VIP, f.ID, f),
			slog.String("event", "self-test-failed"), vip, slog.String("cause", is.Cause))
	case is.OK && before.isKnown() && !was.OK:
		t.Log.Info(fmt.Sprintf("the self-test of port 80 of %v succeeds again, after %s (%s)",
			is.VIP, report.Age(is.Since.Sub(was.Since)), was.Cause),
			slog.String("event", "self-test-recovered"), vip, slog.String("cause", was.Cause))
	}
}

// logError logs once why self-tests give no result.
func (t *SelfTester) logError(err error) {
	if err != nil && t.lastError == nil {
		t.Log.Warn("the self-test could not run; retrying", slog.String("event", "self-test"), slog.Any("error", err))
	}
	t.lastError = err
}

// keptProber requests pages through a prober process that it keeps until close: the start of a
// process takes several times the processor time of a self-test, and an idle one uses only 3
// MiB of memory.
type keptProber struct{ client *prober.Client }

func (k *keptProber) fetch(ctx context.Context, q probing.FetchRequest) (*probing.FetchResult, error) {
	if k.client != nil && k.client.Ended() {
		k.close()
	}
	if k.client == nil {
		client, err := prober.Start()
		if err != nil {
			return nil, err
		}
		k.client = client
	}
	r, err := k.client.Query(ctx, probing.Request{Fetch: &q})
	if err != nil {
		k.close() // the next request starts another process
		return nil, err
	}
	return r.Fetch, nil
}

func (k *keptProber) close() {
	if k.client != nil {
		k.client.Close()
		k.client = nil
	}
}

// ConfirmVIP reports whether the service answers at port 80 of a VIP, by a prober process: the
// proxy process alone cannot end a finding.
func ConfirmVIP(ctx context.Context, vip netip.Addr) bool {
	ctx, cancel := context.WithTimeout(ctx, selfTestMargin)
	defer cancel()
	pages := &keptProber{}
	defer pages.close()
	page, err := pages.fetch(ctx, probing.FetchRequest{
		Addr: netip.AddrPortFrom(vip, 80), Host: hostOf(vip), Path: report.TestPath,
		UserAgent: report.TestUserAgent, ConnectTimeout: selfTestConnectTimeout,
	})
	return err == nil && page.Status == 400 && string(page.Body) == report.OnlyChallenges
}
