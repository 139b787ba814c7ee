// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/socketowner"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// livenessInterval is short enough for a gate that stops answering to be replaced
	// within 12 s: a pause, and three requests of 2 s with 1 s in between.
	livenessInterval      = 4 * time.Second
	livenessRetryInterval = time.Second
	livenessTimeout       = 2 * time.Second

	// A gate is replaced after so many requests in a row that it has not answered.
	failureThreshold = 3
	// Under load it is never replaced; after so many the state says so.
	loadFailureThreshold = 10
	// busyConnections that the gate has told of since the request began are a load.
	busyConnections = 200
	// statsDelay is what a gate that has reset a connection takes to tell of it.
	statsDelay = 3 * 100 * time.Millisecond

	// Replacing a gate helps at once or not at all. Without an answer in between, the
	// next replacement comes ever later: it costs the challenges in flight, and the
	// cause may be another.
	minReplacementBackoff = time.Minute
	maxReplacementBackoff = time.Hour
)

// livenessCheck finds out whether clients are answered, by requests of its own: a gate
// may be alive and not answer. While this host holds API VIPs and the table leads
// there, it connects to port 80 of each, through the table's output chain, and
// expects the answer to a request that is no challenge. It compares the answer's
// first bytes, and parses nothing. On standby nobody can connect, and it neither.
//
// When a request fails, the kernel tells whether the gate is at fault: it lists the
// other end of a connection that has reached the port that the table leads to. If
// there is none, and the listening socket has room for connections, rules of others keep this
// host's own connections away, and perhaps nobody else's: the state has a note, and
// no gate is replaced.
//
// A flood must not have a gate replaced that is well. One whose limits.maxConnections
// are all taken by slow clients resets one of them for each new connection, within
// 20 ms (package gate): the request is answered far within its 2 s. The backlog of
// 4096 connections is some 0.4 s of work. So three failures, over 2 s at the least,
// are no matter of load as a rule. Two failures count as load besides: a reset, when
// the gate has meanwhile told of connections that it has reset for its limits, and no
// answer, when it has told of many connections that have ended. A gate that lies
// about that shows in the journal and in the metrics, which have these numbers.
//
// A gate that answers this host and nobody else is not found out.
type livenessCheck struct {
	tracker      *report.Tracker
	stats        *statsRecorder
	proxy        *proxyManager
	timing       timing
	trigger      chan struct{}
	table        atomic.Pointer[ruleset.Table] // that is in force; nil while none is
	process      atomic.Pointer[proxyProcess]  // nil while there is none
	replacements chan replacement              // to the warden

	// What follows belongs to the goroutine of run.
	checkedProcess     *proxyProcess // that answer is about
	answer             report.VIPProbe
	unansweredSince    time.Time           // when the first VIP without an answer was seen
	failures           map[failureKind]int // in a row
	replacementBackoff time.Duration       // before the next replacement without an answer
	nextReplacement    time.Time           // is the earliest time for it
}

// replacement asks the warden for another gate.
type replacement struct {
	process *proxyProcess
	reason  string
}

// requestFailure is why a request was not answered.
type requestFailure struct {
	kind   failureKind
	reason string
}

// failureKind says where the request has failed.
type failureKind int

// The kinds of failures.
const (
	notDelivered failureKind = iota // it has not reached the gate
	proxyFailed                     // it has, or the gate does not accept
	underLoad
)

func newLivenessCheck(board *report.Tracker, recorder *statsRecorder, door *proxyManager, t timing) *livenessCheck {
	board.SetVIPProbe(report.VIPProbe{}, time.Now())
	return &livenessCheck{
		tracker: board, stats: recorder, proxy: door, timing: t, trigger: make(chan struct{}, 1), replacements: make(chan replacement, 1),
		failures: make(map[failureKind]int), replacementBackoff: minReplacementBackoff,
	}
}

// requestCheck asks for requests at once.
func (c *livenessCheck) requestCheck() {
	select {
	case c.trigger <- struct{}{}:
	default:
	}
}

// setTable takes the table that is in force; nil: none is.
func (c *livenessCheck) setTable(t *ruleset.Table) {
	c.table.Store(t)
	c.requestCheck()
}

// setProcess takes the gate that answers from now on; nil: none does.
func (c *livenessCheck) setProcess(g *proxyProcess) {
	c.process.Store(g)
	c.requestCheck()
}

// run makes requests until ctx ends.
func (c *livenessCheck) run(ctx context.Context) error {
	timer := time.NewTimer(c.timing.ServingEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.trigger:
		case <-timer.C:
		}
		timer.Reset(c.checkVIPs(ctx))
	}
}

// checkVIPs makes a request to each held VIP, up to the first that fails, and returns
// when to make the next.
func (c *livenessCheck) checkVIPs(ctx context.Context) time.Duration {
	gate, table := c.process.Load(), c.table.Load()
	var vips []netip.Addr
	if table != nil {
		vips = table.VIPs()
	}
	if gate != c.checkedProcess || len(vips) == 0 {
		c.checkedProcess, c.unansweredSince = gate, time.Time{}
		c.answer = report.VIPProbe{}
		clear(c.failures)
	}
	c.retainAnswers(func(vip netip.Addr) bool { return slices.Contains(vips, vip) })
	if gate == nil || len(vips) == 0 {
		c.publish()
		return c.timing.ServingEvery
	}
	if c.unansweredSince.IsZero() && len(c.answer.Answered) < len(vips) {
		c.unansweredSince = time.Now()
	}
	for _, vip := range vips {
		if vip.IsLinkLocalUnicast() {
			continue // nobody reaches it without the name of a link
		}
		f := c.request(ctx, vip, table.Port())
		switch {
		case ctx.Err() != nil:
			return c.timing.ServingEvery
		case c.process.Load() != gate || c.table.Load() != table:
			return 0 // this says nothing of what there is now
		case f != nil:
			c.recordFailure(vips, vip, *f)
			return c.timing.ServingAgain
		}
	}
	c.answer = report.VIPProbe{Answered: vips}
	c.unansweredSince, c.nextReplacement, c.replacementBackoff = time.Time{}, time.Time{}, minReplacementBackoff
	clear(c.failures)
	c.publish()
	return c.timing.ServingEvery
}

// retainAnswers has those VIPs only count as answered.
func (c *livenessCheck) retainAnswers(these func(netip.Addr) bool) {
	c.answer.Answered = slices.DeleteFunc(slices.Clone(c.answer.Answered), func(vip netip.Addr) bool { return !these(vip) })
}

func (c *livenessCheck) publish() { c.tracker.SetVIPProbe(c.answer, time.Now()) }

// recordFailure draws the conclusions from the failure of one of the held VIPs.
func (c *livenessCheck) recordFailure(vips []netip.Addr, vip netip.Addr, f requestFailure) {
	c.failures[f.kind]++
	late := !slices.Contains(c.answer.Answered, vip) && time.Since(c.unansweredSince) >= c.timing.ServingWithin
	enough := failureThreshold
	if f.kind == underLoad {
		enough = loadFailureThreshold
	}
	if c.failures[f.kind] < enough && !late {
		return
	}
	if f.kind == notDelivered {
		c.answer = report.VIPProbe{Answered: vips, Note: fmt.Sprintf("requests of this host itself to port 80 of %v do not reach the service (%s), and whether others do is not known: run http01-proxyd check", vip, f.reason)}
		c.publish()
		return
	}
	if f.kind == proxyFailed && c.failures[proxyFailed] >= enough && c.requestReplacement(vip, f) {
		return // the warden says what happens
	}
	c.retainAnswers(func(other netip.Addr) bool { return other != vip })
	c.answer.Failure = fmt.Sprintf("the gate, which answers the clients, has not answered requests of this host itself to port 80 of %v: %s; "+
		"if that goes on, see the journal, and run http01-proxyd check", vip, f.reason)
	c.publish()
}

// awaitNewProxy has the gate replaced, unless that has not helped.
func (c *livenessCheck) requestReplacement(vip netip.Addr, f requestFailure) bool {
	now := time.Now()
	if now.Before(c.nextReplacement) {
		return false
	}
	select {
	case c.replacements <- replacement{c.checkedProcess, fmt.Sprintf("has not answered %d requests of this service in a row to port 80 of %v (%s)", failureThreshold, vip, f.reason)}:
	default:
		return false
	}
	c.nextReplacement, c.replacementBackoff = now.Add(c.replacementBackoff), min(2*c.replacementBackoff, maxReplacementBackoff)
	return true
}

// The request, and how the answer to it begins.
const (
	livenessRequest    = "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
	expectedStatusLine = "HTTP/1.1 400 "
)

// request makes one request, and returns why it failed.
func (c *livenessCheck) request(ctx context.Context, vip netip.Addr, port uint16) *requestFailure {
	ended, limited := c.stats.connectionCounts()
	what, reached := c.attempt(ctx, vip, port)
	switch {
	case what == "" && reached:
		return nil
	case what == "":
		return &requestFailure{notDelivered, "another program answers"}
	case !reached && what != connectionReset && c.proxy.hasBacklogRoom(port):
		return &requestFailure{notDelivered, what}
	default:
		return c.considerLoad(ctx, &requestFailure{proxyFailed, what}, ended, limited)
	}
}

// attempt makes one request, and returns what is wrong with the answer and whether the
// connection has reached a socket on the port that the table leads to.
func (c *livenessCheck) attempt(ctx context.Context, vip netip.Addr, port uint16) (what string, reached bool) {
	conn, from, err := c.connect(ctx, vip)
	var errno unix.Errno
	switch {
	case errors.Is(err, unix.ECONNRESET):
		return connectionReset, false
	case errors.As(err, &errno):
		return errno.Error(), false
	case err != nil:
		return "no connection in time", false
	}
	defer func() { _ = conn.Close() }()
	// Before the request: a socket that is closed with unread bytes is gone at once.
	reached, err = socketowner.HasConnection(netip.AddrPortFrom(vip, port), from)
	if reached = reached || err != nil; reached {
		c.stats.expectOwnRequest(time.Now())
	}
	return exchange(conn, vip), reached
}

// connect connects to a VIP of this host from that VIP, as the kernel has it for a
// host's own addresses. A VIP that has just left this host is not looked for on
// another one.
func (c *livenessCheck) connect(ctx context.Context, vip netip.Addr) (conn net.Conn, from netip.AddrPort, err error) {
	// The end of the service does not break it off: the gate would count a client that
	// was gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timing.ServingWithin)
	defer cancel()
	deadline, _ := ctx.Deadline()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(vip, 0)), KeepAlive: -1}
	if conn, err = dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(vip, 80).String()); err != nil {
		return nil, from, err
	}
	if local, is := conn.LocalAddr().(*net.TCPAddr); is {
		from = netip.AddrPortFrom(vip, local.AddrPort().Port())
	}
	_ = conn.SetDeadline(deadline)
	return conn, from, nil
}

// What becomes of a request besides silence.
const (
	connectionReset    = "the connection was reset"
	unexpectedResponse = "the answer is another than 400"
)

// exchange sends the request and returns what is wrong with the answer. Nothing of
// that is quoted: who has written it is not to be trusted.
func exchange(conn net.Conn, vip netip.Addr) string {
	host := vip.String()
	if vip.Is6() {
		host = "[" + host + "]"
	}
	var answer [64]byte
	_, err := fmt.Fprintf(conn, livenessRequest, host)
	if err == nil {
		_, err = io.ReadAtLeast(conn, answer[:], len(expectedStatusLine))
	}
	switch {
	case err == nil && bytes.HasPrefix(answer[:], []byte(expectedStatusLine)):
		return ""
	case err == nil:
		return unexpectedResponse
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return connectionReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed without an answer"
	default:
		return "no answer in time"
	}
}

// considerLoad looks whether the gate has told of a load since the request began.
func (c *livenessCheck) considerLoad(ctx context.Context, f *requestFailure, ended, limited uint64) *requestFailure {
	if f.reason == connectionReset {
		select {
		case <-ctx.Done():
		case <-time.After(statsDelay):
		}
	}
	nowEnded, nowLimited := c.stats.connectionCounts()
	if nowEnded-ended >= busyConnections || f.reason == connectionReset && nowLimited > limited {
		f.kind = underLoad
	}
	return f
}

// hasBacklogRoom reports whether the socket on a port listens and has room for connections.
// Of a listening socket, tcpi_unacked is how many wait to be accepted, and
// tcpi_sacked how many may (net/ipv4/tcp.c, tcp_get_info).
func (d *proxyManager) hasBacklogRoom(port uint16) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	fd, open := d.listeners[port]
	if !open {
		return false
	}
	if _, err := listeningPort(fd); err != nil {
		return false
	}
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err != nil || info.Unacked <= info.Sacked
}

// observedTable is the table, of which the check learns what is in force.
type observedTable struct {
	*kernelTable
	liveness *livenessCheck
	last     ruleset.Table
	differs  bool
}

// Apply implements reconcile.Table.
func (t *observedTable) Apply(want ruleset.Table) error {
	if err := t.kernelTable.Apply(want); err != nil {
		t.last = ruleset.Table{}
		t.liveness.setTable(nil)
		return err
	}
	if t.differs || t.last != want {
		t.last, t.differs = want, false
		t.liveness.setTable(&want)
	}
	return nil
}

// Verify implements reconcile.Table.
func (t *observedTable) Verify() (bool, error) {
	differs, err := t.kernelTable.Verify()
	t.differs = t.differs || differs
	return differs, err
}

// Remove implements reconcile.Table.
func (t *observedTable) Remove() error {
	t.last = ruleset.Table{}
	t.liveness.setTable(nil)
	return t.kernelTable.Remove()
}
