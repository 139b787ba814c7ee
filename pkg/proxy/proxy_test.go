// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/loop"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/server"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	testTimeout = 30 * time.Second
	port        = 8888 // an ID of the socket; the kernel chooses the real port
	token       = "/.well-known/acme-challenge/evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"
)

// testController is the controller's end of the connection.
type testController struct {
	*testing.T
	*wire.Parent
	events chan protocol.Event
	ended  chan error
	url    string
}

// startProxy starts a proxy and an ingress.
func startProxy(t *testing.T, ingress http.HandlerFunc) *testController {
	t.Helper()
	near, far, err := wire.NewPair()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := wire.NewChild(far)
	if err != nil {
		t.Fatal(err)
	}
	k := &testController{T: t, Parent: near, events: make(chan protocol.Event, 100), ended: make(chan error, 1)}
	go func() {
		defer theirs.Close()
		k.ended <- Run(t.Context(), theirs)
	}()
	go func() {
		defer close(k.events)
		for {
			var e protocol.Event
			if err := near.Receive(&e); err != nil {
				return
			}
			k.events <- e
		}
	}()
	server := httptest.NewServer(ingress)
	t.Cleanup(server.Close)
	address := netip.MustParseAddrPort(server.Listener.Addr().String())
	k.command(protocol.Command{Configure: configure(address, nil)}, -1)
	return k
}

// configure returns a configuration for the ingress at this address, with an egress
// decision or without one.
func configure(at netip.AddrPort, egress *ingress.Egress) *protocol.Configure {
	c := &protocol.Configure{
		MaxConnections: 100, HeadTimeout: testTimeout, HeadBytes: 8192,
		Upstream: ingress.Upstream{
			Addresses: []netip.Addr{at.Addr()}, Port: at.Port(), ConnectTimeout: testTimeout,
			Timeout: testTimeout,
		},
	}
	if egress != nil {
		c.Egress = *egress
	}
	return c
}

// listen sends a listening socket to the proxy, and closes its own descriptor.
func (k *testController) listen() {
	k.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		k.Fatal(err)
	}
	defer ln.Close()
	k.url = "http://" + ln.Addr().String()
	file, err := ln.(*net.TCPListener).File() //nolint:forcetypeassert // "tcp"
	if err != nil {
		k.Fatal(err)
	}
	defer file.Close()
	k.command(protocol.Command{Listen: &protocol.Listen{Port: port}}, int(file.Fd()))
}

func (k *testController) command(o protocol.Command, fd int) {
	k.Helper()
	if err := k.Send(o, fd); err != nil {
		k.Fatal(err)
	}
}

// awaitEvent waits for the event for which match returns true.
func (k *testController) awaitEvent(what string, match func(protocol.Event) bool) protocol.Event {
	k.Helper()
	deadline := time.After(testTimeout)
	for {
		select {
		case w, more := <-k.events:
			if !more {
				k.Fatalf("the connection ended before %s", what)
			}
			if match(w) {
				return w
			}
		case <-deadline:
			k.Fatalf("no event: %s", what)
		}
	}
}

func (k *testController) get(path string) int {
	k.Helper()
	client := http.Client{Timeout: testTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(k.url + path)
	if err != nil {
		k.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func (k *testController) stop() {
	k.Helper()
	_ = k.Close()
	select {
	case err := <-k.ended:
		if err != nil {
			k.Error(err)
		}
	case <-time.After(testTimeout):
		k.Error("the proxy is still running without its controller")
	}
}

func answerChallenge(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "token.thumbprint") }

func TestCommandsAndEvents(t *testing.T) {
	t.Parallel()
	k := startProxy(t, answerChallenge)
	k.listen()
	if code := k.get(token); code != 200 {
		t.Errorf("a challenge: %d", code)
	}
	if code := k.get("/"); code != 400 {
		t.Errorf("anything else: %d", code)
	}
	var challenges []protocol.Challenge
	refused := uint64(0)
	k.awaitEvent("stats of both", func(w protocol.Event) bool {
		if w.Stats != nil {
			challenges = append(challenges, w.Stats.Challenges...)
			for _, r := range w.Stats.Rejected {
				if r.Rejection == report.NotChallenge && r.ClientKind == report.StepCA { // the kind of Go programs
					refused += r.Count
				}
			}
		}
		return len(challenges) == 1 && refused == 1
	})
	if c := challenges[0]; c.Status != 200 || c.TokenPrefix != "evaGxfAD" || c.Method != http.MethodGet ||
		c.Duration <= 0 {
		t.Errorf("challenge %+v", c)
	}
	// After a report, the next one waits unless the controller requests a flush.
	for range 3 {
		k.get(token)
	}
	k.command(protocol.Command{Flush: &protocol.Flush{}}, -1)
	reported := 0
	k.awaitEvent("the end of the flush", func(w protocol.Event) bool {
		if w.Stats != nil {
			reported += len(w.Stats.Challenges)
		}
		return w.Flushed != nil
	})
	if reported < 2 { // the last one may not be recorded yet
		t.Errorf("%d of 3 challenges reported", reported)
	}
	k.awaitEvent("a heartbeat", func(w protocol.Event) bool { return w.Heartbeat != nil })
	k.command(protocol.Command{ProbeIngress: &protocol.ProbeIngress{}}, -1)
	found := k.awaitEvent("the probe result",
		func(w protocol.Event) bool { return w.IngressProbed != nil }).IngressProbed.Results
	if len(found) != 1 || found[0].Failure != nil {
		t.Errorf("probed %+v", found)
	}
	k.command(protocol.Command{StopListening: &protocol.StopListening{Port: port}}, -1)
	if code := k.get(token); code != 200 {
		t.Errorf("a challenge to a port in its grace period: %d", code)
	}
	k.awaitEvent("the closed port", func(w protocol.Event) bool { return w.Stopped != nil && w.Stopped.Port == port })
	if conn, err := net.Dial("tcp", strings.TrimPrefix(k.url, "http://")); err == nil {
		_ = conn.Close()
		t.Error("the port still takes connections")
	}
	k.stop()
}

// TestDrain: connections in flight end before the drain does. The event contains
// the number of those that took too long.
func TestDrain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		budget time.Duration
		cut    int
	}{"in time": {testTimeout, 0}, "too late": {50 * time.Millisecond, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requested, proceed := make(chan struct{}), make(chan struct{})
			k := startProxy(t, func(w http.ResponseWriter, r *http.Request) {
				close(requested)
				<-proceed
				answerChallenge(w, r)
			})
			k.listen()
			code := make(chan int, 1)
			go func() {
				client := http.Client{Timeout: testTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
				resp, err := client.Get(k.url + token)
				if err != nil {
					code <- 0
					return
				}
				_ = resp.Body.Close()
				code <- resp.StatusCode
			}()
			<-requested
			k.command(protocol.Command{Drain: &protocol.Drain{Budget: tt.budget}}, -1)
			if tt.cut == 0 {
				close(proceed)
			}
			if cut := k.awaitEvent("the end of the drain",
				func(w protocol.Event) bool { return w.Drained != nil }).Drained.Cut; cut != tt.cut {
				t.Errorf("drained with %d connections cut", cut)
			}
			if tt.cut != 0 {
				close(proceed)
			}
			if got := <-code; (got == 200) != (tt.cut == 0) {
				t.Errorf("the client got %d", got)
			}
			k.stop()
		})
	}
}

// TestExit: the proxy exits after an invalid command, and with the controller, at
// any time.
func TestExit(t *testing.T) {
	t.Parallel()
	k := startProxy(t, answerChallenge)
	k.listen()
	k.command(protocol.Command{StopListening: &protocol.StopListening{Port: port}}, -1)
	k.stop()
	k = startProxy(t, answerChallenge)
	k.command(protocol.Command{Drain: &protocol.Drain{}}, 1) // with a descriptor
	if err := <-k.ended; err == nil {
		t.Error("it accepts an unexpected descriptor")
	}
	k = startProxy(t, answerChallenge)
	k.command(protocol.Command{Listen: &protocol.Listen{Port: port}}, -1)
	if err := <-k.ended; err == nil || !strings.Contains(err.Error(), "the command has no socket") {
		t.Errorf("a port without its socket: %v", err)
	}
}

// TestStatsAreBounded: a report stays small however much happens.
func TestStatsAreBounded(t *testing.T) {
	t.Parallel()
	stats := newStatsCollector()
	const n = 10 * protocol.MaxChallenges
	zoned := netip.MustParseAddrPort("[fe80::1%eth0]:80")
	for i := range n {
		stats.RecordChallenge(report.Challenge{
			Method: "GET", VIP: zoned.Addr(), Client: zoned, Status: i,
			ClientKind: report.OtherClient, Duration: time.Second, Cause: "ingress-refused",
		},
			&cause.Failure{Cause: "ingress-refused"})
		stats.RecordRejection(report.NotChallenge, report.OtherClient)
		stats.RecordRejection(report.ForeignHost, report.CertManager)
	}
	for _, errno := range []unix.Errno{unix.ENOBUFS, unix.EMFILE} {
		stats.RecordAcceptFailure(os.NewSyscallError("accept", errno))
	}
	var reports []*protocol.Stats
	for range 2 {
		stats.flush(func(n *protocol.Stats) { reports = append(reports, n) })
	}
	if len(reports) != 1 {
		t.Fatalf("%d reports", len(reports))
	}
	got := reports[0]
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	if len(got.Challenges) != protocol.MaxChallenges || len(got.Sums) != 1 || got.Sums[0].Count != n ||
		got.Sums[0].TotalDuration != n*time.Second || got.Challenges[protocol.MaxChallenges-1].Status != n-1 ||
		rejectionCount(got, report.NotChallenge, report.OtherClient) != n || rejectionCount(got, report.ForeignHost,
		report.CertManager) != n || !got.UpstreamFailed || got.AcceptFailures != 2 ||
		got.LastAcceptErrno != uint16(unix.EMFILE) {
		t.Errorf("reported %d challenges, sums %+v, %+v", len(got.Challenges), got.Sums, got.Rejected)
	}
}

// rejectionCount returns the number of rejections of a kind of client for a reason.
func rejectionCount(n *protocol.Stats, reason report.Rejection, kind report.ClientKind) uint64 {
	for _, r := range n.Rejected {
		if r.Rejection == reason && r.ClientKind == kind {
			return r.Count
		}
	}
	return 0
}

// TestStatsInSeveralMessages: the next message contains the sums that do not fit
// into one.
func TestStatsInSeveralMessages(t *testing.T) {
	t.Parallel()
	stats := newStatsCollector()
	const n = 3*protocol.MaxRequestSums + 1
	causes := findings.Causes()
	for i := range n {
		causeID := causes[i%len(causes)]
		took := time.Duration(math.Exp2(float64(report.FirstBucket+1+i/len(causes))/8) * float64(time.Second))
		stats.RecordChallenge(report.Challenge{Method: "GET", ClientKind: report.OtherClient, Cause: causeID, Duration: took},
			&cause.Failure{Cause: causeID})
	}
	kinds := 0
	for range 4 {
		stats.flush(func(n *protocol.Stats) {
			if err := n.Validate(); err != nil {
				t.Error(err)
			}
			kinds += len(n.Sums)
		})
	}
	if kinds != n {
		t.Errorf("%d kinds were reported, want %d", kinds, n)
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	for want, c := range map[report.Outcome]report.Challenge{
		report.Answered: {Status: 200}, report.NotFound: {Status: 404}, report.OtherStatus: {Status: 500},
		report.AnswerUnread: {},
		report.NoRoute:      {Status: 503, Cause: "route-missing"}, report.Redirected: {
			Status: 302,
			Cause:  "route-redirects-https",
		},
		report.UpstreamError: {Status: 502, Cause: "route-loop"},
	} {
		if got := outcomeOf(&c); got != want {
			t.Errorf("%+v: %s, want %s", c, got, want)
		}
	}
	if got := outcomeOf(&report.Challenge{Status: 503, Cause: "route-missing-for-address"}); got != report.NoRoute {
		t.Errorf("an address without a route: %s", got)
	}
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
		unix.Listen(fd, 1)); err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", loop.LocalAddr(fd).String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if n := server.Backlog(fd); n != 1 {
		t.Errorf("backlog %d, with one connection waiting", n)
	}
	accepted, _, err := loop.Accept(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer loop.Close(accepted)
	defer loop.Close(fd)
	if n := server.Backlog(fd); n != 0 {
		t.Errorf("backlog %d, with none waiting", n)
	}
}
