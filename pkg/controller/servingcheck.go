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
	// servingEvery is short enough for a gate that stops answering to be replaced
	// within 12 s: a pause, and three requests of 2 s with 1 s in between.
	servingEvery  = 4 * time.Second
	servingAgain  = time.Second
	servingWithin = 2 * time.Second

	// A gate is replaced after so many requests in a row that it has not answered.
	enoughFailures = 3
	// Under load it is never replaced; after so many the state says so.
	enoughUnderLoad = 10
	// busyConnections that the gate has told of since the request began are a load.
	busyConnections = 200
	// tellTime is what a gate that has reset a connection takes to tell of it.
	tellTime = 3 * 100 * time.Millisecond

	// Replacing a gate helps at once or not at all. Without an answer in between, the
	// next replacement comes ever later: it costs the challenges in flight, and the
	// cause may be another.
	firstPatience = time.Minute
	lastPatience  = time.Hour
)

// servingCheck finds out whether clients are answered, by requests of its own: a gate
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
type servingCheck struct {
	board    *report.Board
	recorder *recorder
	door     *door
	timing   timing
	now      chan struct{}
	table    atomic.Pointer[ruleset.Table] // that is in force; nil while none is
	gate     atomic.Pointer[gateProcess]   // nil while there is none
	replace  chan replacement              // to the warden

	// What follows belongs to the goroutine of run.
	asked    *gateProcess // that answer is about
	answer   report.Answer
	since    time.Time           // when the first VIP without an answer was seen
	failures map[failureKind]int // in a row
	patience time.Duration       // before the next replacement without an answer
	next     time.Time           // is the earliest time for it
}

// replacement asks the warden for another gate.
type replacement struct {
	gate *gateProcess
	why  string
}

// unserved is why a request was not answered.
type unserved struct {
	kind failureKind
	what string
}

// failureKind says where the request has failed.
type failureKind int

// The kinds of failures.
const (
	onTheWay  failureKind = iota // it has not reached the gate
	atTheGate                    // it has, or the gate does not accept
	underLoad
)

func newServingCheck(board *report.Board, recorder *recorder, door *door, t timing) *servingCheck {
	board.SetAnswer(report.Answer{}, time.Now())
	return &servingCheck{
		board: board, recorder: recorder, door: door, timing: t, now: make(chan struct{}, 1), replace: make(chan replacement, 1),
		failures: make(map[failureKind]int), patience: firstPatience,
	}
}

// hurry asks for requests at once.
func (c *servingCheck) hurry() {
	select {
	case c.now <- struct{}{}:
	default:
	}
}

// apply takes the table that is in force; nil: none is.
func (c *servingCheck) apply(t *ruleset.Table) {
	c.table.Store(t)
	c.hurry()
}

// attend takes the gate that answers from now on; nil: none does.
func (c *servingCheck) attend(g *gateProcess) {
	c.gate.Store(g)
	c.hurry()
}

// run makes requests until ctx ends.
func (c *servingCheck) run(ctx context.Context) error {
	timer := time.NewTimer(c.timing.ServingEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.now:
		case <-timer.C:
		}
		timer.Reset(c.round(ctx))
	}
}

// round makes a request to each held VIP, up to the first that fails, and returns
// when to make the next.
func (c *servingCheck) round(ctx context.Context) time.Duration {
	gate, table := c.gate.Load(), c.table.Load()
	var vips []netip.Addr
	if table != nil {
		vips = table.VIPs()
	}
	if gate != c.asked || len(vips) == 0 {
		c.asked, c.since = gate, time.Time{}
		c.answer = report.Answer{}
		clear(c.failures)
	}
	c.keep(func(vip netip.Addr) bool { return slices.Contains(vips, vip) })
	if gate == nil || len(vips) == 0 {
		c.tell()
		return c.timing.ServingEvery
	}
	if c.since.IsZero() && len(c.answer.VIPs) < len(vips) {
		c.since = time.Now()
	}
	for _, vip := range vips {
		if vip.IsLinkLocalUnicast() {
			continue // nobody reaches it without the name of a link
		}
		f := c.request(ctx, vip, table.Port())
		switch {
		case ctx.Err() != nil:
			return c.timing.ServingEvery
		case c.gate.Load() != gate || c.table.Load() != table:
			return 0 // this says nothing of what there is now
		case f != nil:
			c.failed(vips, vip, *f)
			return c.timing.ServingAgain
		}
	}
	c.answer = report.Answer{VIPs: vips}
	c.since, c.next, c.patience = time.Time{}, time.Time{}, firstPatience
	clear(c.failures)
	c.tell()
	return c.timing.ServingEvery
}

// keep has those VIPs only count as answered.
func (c *servingCheck) keep(these func(netip.Addr) bool) {
	c.answer.VIPs = slices.DeleteFunc(slices.Clone(c.answer.VIPs), func(vip netip.Addr) bool { return !these(vip) })
}

func (c *servingCheck) tell() { c.board.SetAnswer(c.answer, time.Now()) }

// failed draws the conclusions from the failure of one of the held VIPs.
func (c *servingCheck) failed(vips []netip.Addr, vip netip.Addr, f unserved) {
	c.failures[f.kind]++
	late := !slices.Contains(c.answer.VIPs, vip) && time.Since(c.since) >= c.timing.ServingWithin
	enough := enoughFailures
	if f.kind == underLoad {
		enough = enoughUnderLoad
	}
	if c.failures[f.kind] < enough && !late {
		return
	}
	if f.kind == onTheWay {
		c.answer = report.Answer{VIPs: vips, Note: fmt.Sprintf("requests of this host itself to port 80 of %v do not reach the service (%s), and whether others do is not known: run http01-proxyd check", vip, f.what)}
		c.tell()
		return
	}
	if f.kind == atTheGate && c.failures[atTheGate] >= enough && c.another(vip, f) {
		return // the warden says what happens
	}
	c.keep(func(other netip.Addr) bool { return other != vip })
	c.answer.Failure = fmt.Sprintf("the gate, which answers the clients, has not answered requests of this host itself to port 80 of %v: %s; "+
		"if that goes on, see the journal, and run http01-proxyd check", vip, f.what)
	c.tell()
}

// another has the gate replaced, unless that has not helped.
func (c *servingCheck) another(vip netip.Addr, f unserved) bool {
	now := time.Now()
	if now.Before(c.next) {
		return false
	}
	select {
	case c.replace <- replacement{c.asked, fmt.Sprintf("has not answered %d requests of this service in a row to port 80 of %v (%s)", enoughFailures, vip, f.what)}:
	default:
		return false
	}
	c.next, c.patience = now.Add(c.patience), min(2*c.patience, lastPatience)
	return true
}

// The request, and how the answer to it begins.
const (
	ownRequest = "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
	ownAnswer  = "HTTP/1.1 400 "
)

// request makes one request, and returns why it failed.
func (c *servingCheck) request(ctx context.Context, vip netip.Addr, port uint16) *unserved {
	ended, limited := c.recorder.progress()
	what, reached := c.attempt(ctx, vip, port)
	switch {
	case what == "" && reached:
		return nil
	case what == "":
		return &unserved{onTheWay, "another program answers"}
	case !reached && what != wasReset && c.door.accepts(port):
		return &unserved{onTheWay, what}
	default:
		return c.excuse(ctx, &unserved{atTheGate, what}, ended, limited)
	}
}

// attempt makes one request, and returns what is wrong with the answer and whether the
// connection has reached a socket on the port that the table leads to.
func (c *servingCheck) attempt(ctx context.Context, vip netip.Addr, port uint16) (what string, reached bool) {
	conn, from, err := c.connect(ctx, vip)
	var errno unix.Errno
	switch {
	case errors.Is(err, unix.ECONNRESET):
		return wasReset, false
	case errors.As(err, &errno):
		return errno.Error(), false
	case err != nil:
		return "no connection in time", false
	}
	defer func() { _ = conn.Close() }()
	// Before the request: a socket that is closed with unread bytes is gone at once.
	reached, err = socketowner.HasConnection(netip.AddrPortFrom(vip, port), from)
	if reached = reached || err != nil; reached {
		c.recorder.expect(time.Now())
	}
	return exchange(conn, vip), reached
}

// connect connects to a VIP of this host from that VIP, as the kernel has it for a
// host's own addresses. A VIP that has just left this host is not looked for on
// another one.
func (c *servingCheck) connect(ctx context.Context, vip netip.Addr) (conn net.Conn, from netip.AddrPort, err error) {
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
	wasReset = "the connection was reset"
	notOurs  = "the answer is another than 400"
)

// exchange sends the request and returns what is wrong with the answer. Nothing of
// that is quoted: who has written it is not to be trusted.
func exchange(conn net.Conn, vip netip.Addr) string {
	host := vip.String()
	if vip.Is6() {
		host = "[" + host + "]"
	}
	var answer [64]byte
	_, err := fmt.Fprintf(conn, ownRequest, host)
	if err == nil {
		_, err = io.ReadAtLeast(conn, answer[:], len(ownAnswer))
	}
	switch {
	case err == nil && bytes.HasPrefix(answer[:], []byte(ownAnswer)):
		return ""
	case err == nil:
		return notOurs
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return wasReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed without an answer"
	default:
		return "no answer in time"
	}
}

// excuse looks whether the gate has told of a load since the request began.
func (c *servingCheck) excuse(ctx context.Context, f *unserved, ended, limited uint64) *unserved {
	if f.what == wasReset {
		select {
		case <-ctx.Done():
		case <-time.After(tellTime):
		}
	}
	nowEnded, nowLimited := c.recorder.progress()
	if nowEnded-ended >= busyConnections || f.what == wasReset && nowLimited > limited {
		f.kind = underLoad
	}
	return f
}

// accepts reports whether the socket on a port listens and has room for connections.
// Of a listening socket, tcpi_unacked is how many wait to be accepted, and
// tcpi_sacked how many may (net/ipv4/tcp.c, tcp_get_info).
func (d *door) accepts(port uint16) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	fd, open := d.open[port]
	if !open {
		return false
	}
	if _, err := listensOn(fd); err != nil {
		return false
	}
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err != nil || info.Unacked <= info.Sacked
}

// checkedTable is the table, of which the check learns what is in force.
type checkedTable struct {
	*table
	serving *servingCheck
	last    ruleset.Table
	differs bool
}

// Apply implements reconcile.Table.
func (t *checkedTable) Apply(want ruleset.Table) error {
	if err := t.table.Apply(want); err != nil {
		t.last = ruleset.Table{}
		t.serving.apply(nil)
		return err
	}
	if t.differs || !t.last.Equal(want) {
		t.last, t.differs = want, false
		t.serving.apply(&want)
	}
	return nil
}

// Verify implements reconcile.Table.
func (t *checkedTable) Verify() (bool, error) {
	differs, err := t.table.Verify()
	t.differs = t.differs || differs
	return differs, err
}

// Remove implements reconcile.Table.
func (t *checkedTable) Remove() error {
	t.last = ruleset.Table{}
	t.serving.apply(nil)
	return t.table.Remove()
}
