// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/mailbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/process"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/socketowner"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// livenessInterval is short enough to replace a process that stops answering within
	// 18 s: one interval, and three requests of 2 s with 1 s in between.
	livenessInterval      = 10 * time.Second
	livenessRetryInterval = time.Second
	livenessTimeout       = 2 * time.Second

	// lateTimeout is the delay of a timeout that shows that this process itself did not run.
	lateTimeout = time.Second

	// longBacklog is the length of a backlog that shows load. A working process accepts as many
	// connections within the 2 s of a request, on a slow machine too.
	longBacklog = 256

	// A replacement helps immediately or not at all. Without an answer in between, the
	// delay before the next replacement doubles: a replacement cuts off the requests in
	// flight, and the cause can be another.
	minReplacementBackoff = time.Minute
	maxReplacementBackoff = time.Hour
)

// LivenessCheck sends its own requests to find out whether clients are answered: a process can
// run and not answer. While this host holds API VIPs and the table redirects, it connects to
// port 80 of each, through the table's output chain, and expects the response to a request for
// another path. It compares the first bytes of the response and parses nothing. On standby no
// client can connect, and it does not either.
//
// When a request fails, the kernel shows whether the proxy process is the cause: it lists the
// other end of a connection that reached the port of the redirect. If there is no such
// connection and the listening socket has room, firewall rules drop this host's own
// connections, and perhaps no others: the state gets a note, and no process is replaced.
//
// A flood must not replace a working process. A working process answers the request without a
// slot of limits.maxConnections, as soon as it accepts the connection. Only two things stop the
// request: a long backlog, whose length the kernel reports, and a reset. Both count as load,
// and a process under load must answer only one of 40 requests. Nothing that the process
// reports gives it more time.
//
// The check does not detect a process that answers this host and no other.
type LivenessCheck struct {
	tracker *tracker.Tracker
	proxy   checkedProxy
	timing  LivenessTiming
	wake    mailbox.Trigger
	table   atomic.Pointer[ruleset.Table] // the applied table; nil: none
	pending atomic.Pointer[ownRequest]

	// Owned by Run:
	checked *process.Proxy // to which answer and failures of shown belong
	shown   liveness
}

// LivenessTiming holds the timeouts and intervals of a liveness check. Zero means the default.
type LivenessTiming struct {
	LivenessInterval      time.Duration // between two requests of the service's own
	LivenessRetryInterval time.Duration // after a request that was not answered
	LivenessTimeout       time.Duration // of a request
}

func (t LivenessTiming) withDefaults() LivenessTiming {
	return LivenessTiming{
		LivenessInterval:      cmp.Or(t.LivenessInterval, livenessInterval),
		LivenessRetryInterval: cmp.Or(t.LivenessRetryInterval, livenessRetryInterval),
		LivenessTimeout:       cmp.Or(t.LivenessTimeout, livenessTimeout),
	}
}

// liveness is what the requests showed.
type liveness struct {
	answer             tracker.VIPProbe
	unansweredSince    time.Time         // for the first VIP without an answer
	failures           [failureKinds]int // in a row
	replacementBackoff time.Duration     // before the next replacement without an answer
	nextReplacement    time.Time         // the earliest time of the next replacement
}

// checkedProxy is what the check needs of the proxy supervisor.
type checkedProxy interface {
	Serving() (*process.Proxy, <-chan struct{}) // and what fires when it changes
	Backlog(port uint16) process.Backlog
	RequestReplacement(p *process.Proxy, reason string) bool
}

// ownRequest is a request that waits for its response.
type ownRequest struct {
	vip   netip.Addr
	abort context.CancelFunc
}

// observation is what a request and the kernel showed.
type observation struct {
	reason  string          // what is wrong with the response; empty if nothing is
	reached bool            // the connection reached a socket on the port of the redirect
	stalled bool            // this process did not run in the meantime (SIGSTOP, a paused machine)
	backlog process.Backlog // after a request without the expected response
}

// failureKind is where a request failed.
type failureKind int

// The kinds of failures.
const (
	notDelivered failureKind = iota // it did not reach the proxy process
	proxyFailed                     // it did, or the process does not accept
	underLoad
	failureKinds
)

// thresholds are numbers of failures in a row. Under load, 40 take two minutes at most: 2 s
// each, with 1 s in between.
//
//nolint:gochecknoglobals // a constant
var thresholds = [failureKinds]struct{ report, replace int }{
	notDelivered: {report: 3, replace: math.MaxInt},
	proxyFailed:  {report: 3, replace: 3},
	underLoad:    {report: 10, replace: 40},
}

// NewLivenessCheck returns a liveness check.
func NewLivenessCheck(status *tracker.Tracker, proxy checkedProxy, t LivenessTiming) *LivenessCheck {
	status.SetVIPProbe(tracker.VIPProbe{}, time.Now())
	return &LivenessCheck{
		tracker: status, proxy: proxy, timing: t.withDefaults(), wake: mailbox.NewTrigger(),
		shown: liveness{replacementBackoff: minReplacementBackoff},
	}
}

// SetTable takes the applied table, or nil. A VIP that left this host does not answer any more:
// the request to it is aborted, so that the next one does not wait for its timeout.
func (c *LivenessCheck) SetTable(t *ruleset.Table) {
	c.table.Store(t)
	if r := c.pending.Load(); r != nil && !c.Redirects(r.vip) {
		r.abort()
	}
	c.wake.Fire()
}

// Redirects reports whether the applied table redirects port 80 of a VIP.
func (c *LivenessCheck) Redirects(vip netip.Addr) bool {
	t := c.table.Load()
	return t != nil && slices.Contains(t.VIPs(), vip)
}

// Run makes requests until ctx ends.
func (c *LivenessCheck) Run(ctx context.Context) error {
	timer := time.NewTimer(c.timing.LivenessInterval)
	defer timer.Stop()
	_, changed := c.proxy.Serving()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		case <-changed:
		case <-timer.C:
		}
		timer.Reset(c.checkVIPs(ctx))
	}
}

// checkVIPs makes a request to each held VIP, up to the first that fails, and returns when
// to make the next.
func (c *LivenessCheck) checkVIPs(ctx context.Context) time.Duration {
	process, _ := c.proxy.Serving()
	table := c.table.Load()
	var vips []netip.Addr
	if table != nil {
		vips = table.VIPs()
	}
	if process != c.checked || len(vips) == 0 {
		c.checked = process
		c.shown = liveness{replacementBackoff: c.shown.replacementBackoff, nextReplacement: c.shown.nextReplacement}
	}
	c.shown.retainAnswers(func(vip netip.Addr) bool { return slices.Contains(vips, vip) })
	if process == nil || len(vips) == 0 {
		c.publish()
		return math.MaxInt64 // a change of either wakes this check
	}
	if c.shown.unansweredSince.IsZero() && len(c.shown.answer.Answered) < len(vips) {
		c.shown.unansweredSince = time.Now()
	}
	for _, vip := range vips {
		if vip.IsLinkLocalUnicast() {
			continue // unreachable without the name of a link
		}
		o := c.request(ctx, vip, table.Port())
		now, _ := c.proxy.Serving()
		switch {
		case ctx.Err() != nil:
			return c.timing.LivenessInterval
		case now != process || c.table.Load() != table:
			return 0 // the result is about a former state
		case !o.isAnswered():
			c.recordFailure(vips, vip, o)
			return c.timing.LivenessRetryInterval
		}
	}
	c.shown = liveness{answer: tracker.VIPProbe{Answered: vips}, replacementBackoff: minReplacementBackoff}
	c.publish()
	return c.timing.LivenessInterval
}

func (c *LivenessCheck) publish() { c.tracker.SetVIPProbe(c.shown.answer, time.Now()) }

// recordFailure acts on the failure of one of the held VIPs.
func (c *LivenessCheck) recordFailure(vips []netip.Addr, vip netip.Addr, o observation) {
	next, replaceFor := c.shown.afterFailure(vips, vip, o, c.timing.LivenessTimeout, time.Now())
	c.shown = next
	if replaceFor != "" { // which the supervisor reports
		c.proxy.RequestReplacement(c.checked, replaceFor)
		return
	}
	c.publish()
}

// retainAnswers drops the answers of other VIPs.
func (l *liveness) retainAnswers(retain func(netip.Addr) bool) {
	others := func(vip netip.Addr) bool { return !retain(vip) }
	l.answer.Answered = slices.DeleteFunc(slices.Clone(l.answer.Answered), others)
}

// afterFailure returns what the requests showed after the failure of one of the held VIPs, and
// why to replace the process, if so. These are all rules of the replacement of a process that does
// not answer.
func (l liveness) afterFailure(
	vips []netip.Addr, vip netip.Addr, o observation, timeout time.Duration, now time.Time,
) (next liveness, replaceFor string) {
	kind := proxyFailed
	switch {
	case o.stalled: // the result is about this process
		l.unansweredSince = time.Time{}
		return l, ""
	case o.reason == "":
		kind, o.reason = notDelivered, "another program answers"
	case !o.reached && o.reason != connectionReset && o.backlog.HasRoom():
		kind = notDelivered
	case o.reason == connectionReset, o.backlog.Waiting > longBacklog:
		kind = underLoad
	}
	l.failures[kind]++
	failures := l.failures[kind]
	late := !slices.Contains(l.answer.Answered, vip) && now.Sub(l.unansweredSince) >= timeout
	switch {
	case failures >= thresholds[kind].replace && !now.Before(l.nextReplacement):
		l.nextReplacement = now.Add(l.replacementBackoff)
		l.replacementBackoff = min(2*l.replacementBackoff, maxReplacementBackoff)
		return l, fmt.Sprintf("has not answered %d requests of this service in a row to port 80 of %v (%s)",
			failures, vip, o.reason)
	case failures < thresholds[kind].report && !late:
	case kind == notDelivered:
		l.answer = tracker.VIPProbe{Answered: vips, Note: fmt.Sprintf("requests of this host to port 80 of %v "+
			"do not reach the service (%s); other clients may be affected", vip, o.reason)}
	default:
		l.retainAnswers(func(other netip.Addr) bool { return other != vip })
		l.answer.Failure = fmt.Sprintf("the proxy process has not answered requests of this host to port 80 of %v: %s; "+
			"if this continues, see the journal and run http01-proxyd check", vip, o.reason)
	}
	return l, ""
}

// The request, and the start of the expected response. The proxy process does not count a test
// request that comes from the VIP itself.
const (
	livenessRequest    = "GET " + report.TestPath + " HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
	expectedStatusLine = "HTTP/1.1 400 "
)

// request makes one request, and returns what it showed.
func (c *LivenessCheck) request(ctx context.Context, vip netip.Addr, port uint16) (o observation) {
	begin := time.Now()
	o.reason, o.reached = c.attempt(ctx, vip, port)
	if !o.isAnswered() {
		o.stalled = time.Since(begin) > c.timing.LivenessTimeout+lateTimeout
		o.backlog = c.proxy.Backlog(port)
	}
	return o
}

func (o observation) isAnswered() bool { return o.reason == "" && o.reached }

// attempt makes one request, and returns what is wrong with the response and whether the
// connection reached a socket on the port of the redirect.
func (c *LivenessCheck) attempt(ctx context.Context, vip netip.Addr, port uint16) (reason string, reached bool) {
	// The end of the service does not cancel it: the proxy process would count a client
	// that disconnected.
	ctx, abort := context.WithTimeout(context.WithoutCancel(ctx), c.timing.LivenessTimeout)
	defer abort()
	c.pending.Store(&ownRequest{vip, abort})
	defer c.pending.Store(nil)
	if !c.Redirects(vip) { // it left before
		abort()
	}
	// From the VIP, as the kernel does for a host's own addresses. So a VIP that just left this
	// host is not reached on another one.
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(vip, 0)), KeepAlive: -1}
	conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(vip, 80).String())
	if err != nil {
		return describe(err, "connection timed out"), false
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	// Before the request: a socket that is closed with unread bytes disappears immediately.
	from, _ := netip.ParseAddrPort(conn.LocalAddr().String())
	reached, err = socketowner.HasConnection(netip.AddrPortFrom(vip, port), from)
	return exchange(conn, vip), reached || err != nil
}

// These are the results of a request besides a timeout.
const (
	connectionReset    = "the connection was reset"
	unexpectedResponse = "the response status is not 400"
)

// exchange sends the request and returns what is wrong with the response. It quotes
// nothing of the response, which an untrusted process wrote.
func exchange(conn net.Conn, vip netip.Addr) string {
	var answer [64]byte
	_, err := fmt.Fprintf(conn, livenessRequest, hostOf(vip))
	if err == nil {
		_, err = io.ReadAtLeast(conn, answer[:], len(expectedStatusLine))
	}
	switch {
	case err != nil:
		return describe(err, "response timed out")
	case !bytes.HasPrefix(answer[:], []byte(expectedStatusLine)):
		return unexpectedResponse
	default:
		return ""
	}
}

// describe describes why a connection ended; timedOut is the text for no other reason.
func describe(err error, timedOut string) string {
	var errno unix.Errno
	switch {
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return connectionReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed without a response"
	case errors.As(err, &errno):
		return errno.Error()
	default:
		return timedOut
	}
}
