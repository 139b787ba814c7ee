// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/server"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// dialFrom connects from an address of this host.
func dialFrom(t testing.TB, source string, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	tcp, err := net.DialTCP("tcp", &net.TCPAddr{IP: net.ParseIP(source)}, net.TCPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tcp.Close() })
	if err := tcp.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	return tcp
}

func wantReset(t *testing.T, what string, tcp *net.TCPConn) {
	t.Helper()
	if b, err := io.ReadAll(tcp); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%s: read %q, %v; want a reset", what, b, err)
	}
}

// wantResponse completes a head whose "GET" was already sent.
func wantResponse(t *testing.T, what string, tcp *net.TCPConn) {
	t.Helper()
	send(t, tcp, " / HTTP/1.1\r\nHost: a\r\n\r\n")
	if got := readAll(t, tcp); !strings.HasSuffix(got, reqhead.OnlyChallenges) {
		t.Errorf("%s: answered %q", what, got)
	}
}

// openHalfSent opens a connection, sends a part of a head, and waits until it was
// read.
func openHalfSent(t *testing.T, f *testServer, source string) *net.TCPConn {
	t.Helper()
	n := f.ReadingHeads()
	tcp := dialFrom(t, source, f.addr)
	send(t, tcp, "GET")
	nstest.Await(t, "it is being read", func() bool { return f.ReadingHeads() == n+1 })
	return tcp
}

// TestPerSource: when the waiting room is full, a source with its part of it loses the connection
// that waited longest for its head. Other sources lose nothing.
func TestPerSource(t *testing.T) {
	s := testSettings()
	s.MaxConnections, s.PerSource = 14, 6
	f := startServer(t, s)
	var other [3]*net.TCPConn
	var own [5]*net.TCPConn
	for i := range other {
		other[i] = openHalfSent(t, f, "127.0.0.3")
	}
	for i := range len(own) - 1 {
		own[i] = openHalfSent(t, f, "127.0.0.2")
	}
	own[4] = dialFrom(t, "127.0.0.2", f.addr)
	send(t, own[4], "GET")
	wantReset(t, "the oldest of the source", own[0])
	wantRejection(t, f, report.SourceLimit)
	for i, tcp := range own {
		if i != 0 {
			wantResponse(t, "another one of the source", tcp)
		}
	}
	for _, tcp := range other {
		wantResponse(t, "another source", tcp)
	}
	wantNoConnections(t, f)
}

// TestHalfSentHeadsYield: connections without a head take no slots from requests.
func TestHalfSentHeadsYield(t *testing.T) {
	s := testSettings()
	s.PerSource = 2
	f := startServer(t, s, startIngress(t, answerAll))
	var own [4]*net.TCPConn
	for i := range own {
		own[i] = openHalfSent(t, f, "127.0.0.2")
	}
	for range 5 {
		tcp := dialFrom(t, "127.0.0.2", f.addr)
		send(t, tcp, challengeRequest)
		if got := readAll(t, tcp); !strings.HasSuffix(got, "token.key") {
			t.Errorf("answered %q", got)
		}
	}
	for _, tcp := range own {
		wantResponse(t, "one without a head", tcp)
	}
	wantNoConnections(t, f)
}

func wantNoConnections(t *testing.T, f *testServer) {
	t.Helper()
	nstest.Await(t, "every connection has ended", func() bool { return f.InFlight() == 0 && f.Sources() == 0 })
}

// TestPerSourceAnswering: a request beyond the bound of its source waits for a slot, and is served
// in its turn.
func TestPerSourceAnswering(t *testing.T) {
	router, requested, proceed := delayedIngress(t)
	s := testSettings()
	s.PerSource = 2
	f := startServer(t, s, router)
	f.StopClock()
	var own [6]*net.TCPConn
	for i := range own {
		own[i] = dialFrom(t, "127.0.0.2", f.addr)
		send(t, own[i], challengeRequest)
		if i < s.PerSource {
			<-requested
		}
	}
	nstest.Await(t, "the newer ones wait", func() bool { return f.Queued() == len(own)-s.PerSource })
	if got := roundTrip(t, f.addr, "GET / HTTP/1.0\r\n\r\n"); !strings.HasSuffix(got, reqhead.OnlyChallenges) {
		t.Errorf("another source was answered %q", got)
	}
	tcp := dialFrom(t, "127.0.0.2", f.addr)
	send(t, tcp, "GET / HTTP/1.0\r\n\r\n")
	if got := readAll(t, tcp); !strings.HasSuffix(got, reqhead.OnlyChallenges) {
		t.Errorf("a request that is not forwarded needs no slot, and was answered %q", got)
	}
	if len(requested) > 0 {
		t.Error("more requests than slots were forwarded")
	}
	close(proceed)
	for _, tcp := range own {
		if got := readAll(t, tcp); !strings.HasSuffix(got, "token.key") {
			t.Errorf("answered %q", got)
		}
	}
	wantNoConnections(t, f)
}

// TestSlotOfSlowExchange: when all slots are taken, the exchange that waited for long enough
// ends with a 504 and the reason, for a challenge that waits. So does its connection to the ingress.
func TestSlotOfSlowExchange(t *testing.T) {
	for name, protocolVersion := range map[string]ingress.ProxyProtocol{
		"exchanged by an event loop": ingress.ProxyProtocolOff, "delegated": ingress.ProxyProtocolV1,
	} {
		for short, perSource := range map[string]int{"all": 0, "its source": 1} {
			t.Run(name+", "+short, func(t *testing.T) {
				requested, ended := make(chan struct{}), make(chan struct{})
				router := startIngress(t, func(tcp *net.TCPConn, r *bufio.Reader) {
					head := readHead(r)
					if !strings.Contains(head, slowPath) {
						_, _ = io.WriteString(tcp, okResponse)
						return
					}
					close(requested)
					_, _ = io.Copy(io.Discard, tcp)
					close(ended)
				})
				s := testSettings()
				if s.PerSource = perSource; perSource == 0 {
					s.MaxConnections = 1
				}
				f := startServer(t, s, router)
				f.upstream.Update(upstream.Settings{Upstream: ingress.Upstream{
					Addresses: []netip.Addr{router.Addr()}, Port: router.Port(), ConnectTimeout: testTimeout,
					ProxyProtocol: protocolVersion,
				}})
				slow := dial(t, f.addr)
				send(t, slow, "GET "+slowPath+" HTTP/1.1\r\nHost: slow.example.com\r\n\r\n")
				waitFor(t, requested)
				next := dial(t, f.addr)
				send(t, next, challengeRequest)
				if got := readAll(t, next); !strings.HasSuffix(got, "token.key") {
					t.Errorf("the next one was answered %q", got)
				}
				got := readAll(t, slow)
				if !strings.HasPrefix(got, "HTTP/1.1 504 ") || !strings.HasSuffix(got, cause.Reply("exchange-given-up")) {
					t.Errorf("the slow one was answered %q", got)
				}
				waitFor(t, ended)
				challenges, _ := f.rec.await(t, 2)
				i := slices.IndexFunc(challenges, func(c report.Challenge) bool { return c.Host == "slow.example.com" })
				if i < 0 || challenges[i].Cause != "exchange-given-up" || challenges[i].Status != 504 ||
					challenges[i].Upstream != router {
					t.Errorf("recorded %+v", challenges)
				}
				wantNoConnections(t, f)
			})
		}
	}
}

// TestBeyondBoundEnds: a connection beyond the bound of its source has headTimeout for its
// head, like others, and then for a slot.
func TestBeyondBoundEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		sends string
		want  report.Rejection
	}{
		"a complete head waits for a slot": {challengeRequest, report.SourceLimit},
		"a part of a head":                 {"GET", report.HeadTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			router, requested, proceed := delayedIngress(t)
			s := testSettings()
			s.PerSource, s.HeadTimeout = 1, 200*time.Millisecond
			f := startServer(t, s, router)
			f.StopClock()
			first := dialFrom(t, "127.0.0.2", f.addr)
			send(t, first, challengeRequest)
			<-requested
			second := dialFrom(t, "127.0.0.2", f.addr)
			send(t, second, tt.sends)
			if tt.want == report.SourceLimit {
				wantReset(t, "the second", second)
			} else if got := readAll(t, second); !strings.HasPrefix(got, "HTTP/1.1 408 ") {
				t.Errorf("answered %q", got)
			}
			wantRejection(t, f, tt.want)
			close(proceed)
			if got := readAll(t, first); !strings.HasSuffix(got, "token.key") {
				t.Errorf("answered %q", got)
			}
			wantNoConnections(t, f)
		})
	}
}

// TestAcceptedWithoutSlot: challenges that arrive while all slots of their source are taken wait.
// Each one is served when those before it used up their time.
func TestAcceptedWithoutSlot(t *testing.T) {
	const clients = 12
	router := startIngress(t, func(_ *net.TCPConn, r *bufio.Reader) {
		if readHead(r) != "" {
			_, _ = r.ReadByte() // never answers
		}
	})
	s := testSettings()
	s.MaxConnections, s.PerSource, s.Upstream.Timeout = 4*clients, 1, 50*time.Millisecond
	f := startServer(t, s, router)
	var all [clients]*net.TCPConn
	for i := range all {
		all[i] = dial(t, f.addr)
		send(t, all[i], challengeRequest)
	}
	nstest.Await(t, "one waits for a slot", func() bool { return f.Queued() > 0 || f.InFlight() == 0 })
	for _, tcp := range all {
		if got := readAll(t, tcp); !strings.HasPrefix(got, "HTTP/1.1 504 ") {
			t.Errorf("answered %q", got)
		}
	}
	if challenges, _ := f.rec.await(t, clients); len(challenges) != clients {
		t.Errorf("%d challenges were recorded, want %d", len(challenges), clients)
	}
	wantNoConnections(t, f)
}

// TestEviction: when the waiting room is full, the connection that waited longest
// for its head is evicted, whatever its source.
func TestEviction(t *testing.T) {
	s := testSettings()
	s.MaxConnections = 6
	f := startServer(t, s)
	var all [4]*net.TCPConn
	for i := range 3 {
		all[i] = openHalfSent(t, f, "127.0.0.2")
	}
	all[3] = dialFrom(t, "127.0.0.3", f.addr)
	send(t, all[3], "GET")
	wantReset(t, "the oldest", all[0])
	wantRejection(t, f, report.Evicted)
	for _, tcp := range all[1:] {
		wantResponse(t, "a newer one", tcp)
	}
	wantNoConnections(t, f)
}

// TestLingeringIsEvictedFirst: a client that has its response and still sends
// takes no place from others, and is not counted twice.
func TestLingeringIsEvictedFirst(t *testing.T) {
	s := testSettings()
	s.MaxConnections = 4
	f := startServer(t, s)
	slow := openHalfSent(t, f, "127.0.0.2")
	talker := dialFrom(t, "127.0.0.3", f.addr)
	send(t, talker, "POST /apis HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
	nstest.Await(t, "it has its answer", func() bool { return f.Lingering() == 1 })
	if got := roundTrip(t, f.addr, "GET / HTTP/1.0\r\n\r\n"); !strings.HasSuffix(got, reqhead.OnlyChallenges) {
		t.Errorf("answered %q", got)
	}
	if got := readAll(t, talker); !strings.HasSuffix(got, reqhead.OnlyChallenges) {
		t.Errorf("the one that lingers was answered %q", got)
	}
	wantResponse(t, "the one that has sent no head", slow)
	if _, rejections := f.rec.await(t, 3); len(rejections) != 3 ||
		strings.Contains(strings.Join(rejectionTexts(rejections), " "), string(report.Evicted)) {
		t.Errorf("rejections %v", rejections)
	}
	wantNoConnections(t, f)
}

func rejectionTexts(rejections []report.Rejection) (all []string) {
	for _, r := range rejections {
		all = append(all, string(r))
	}
	return all
}

// TestLoweredLimits shows that a lowered limit is reached by new connections.
func TestLoweredLimits(t *testing.T) {
	f := startServer(t, testSettings())
	for range 20 {
		openHalfSent(t, f, "127.0.0.2")
	}
	s := testSettings()
	s.MaxConnections = 10
	f.Update(&s)
	for range 20 {
		dialFrom(t, "127.0.0.2", f.addr)
	}
	nstest.Await(t, "the new limit holds", func() bool { return f.InFlight() == 5 })
}

// flood opens connections from an address as fast as it can, each with half a head.
// It keeps the last ones open, and returns the number of all.
func flood(ctx context.Context, source string, to netip.AddrPort) (opened int) {
	var open [512]net.Conn
	defer func() {
		for _, tcp := range open {
			if tcp != nil {
				_ = tcp.Close()
			}
		}
	}()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	for ctx.Err() == nil {
		tcp, err := dialer.DialContext(ctx, "tcp", to.String())
		if err != nil {
			continue
		}
		_ = tcp.(*net.TCPConn).SetLinger(0) // no TIME_WAIT: ports are few
		_, _ = io.WriteString(tcp, challengeRequest[:40])
		at := opened % len(open)
		if open[at] != nil {
			_ = open[at].Close()
		}
		open[at] = tcp
		opened++
	}
	return opened
}

// TestHonestClientsDuringFlood sends requests of CAs during a flood: from their own addresses,
// and from the address of the flood, as behind a translator. No request that was sent in time
// is lost, with and without a bound for each source.
func TestHonestClientsDuringFlood(t *testing.T) {
	const requests = 300
	for name, set := range map[string]func(*protocol.Configure){
		// 600 wait beyond the bound
		"per source":     func(s *protocol.Configure) { s.MaxConnections, s.PerSource = 1200, 256 },
		"all slots":      func(s *protocol.Configure) { s.MaxConnections = 512 },
		"both are short": func(s *protocol.Configure) { s.MaxConnections, s.PerSource = 512, 256 },
	} {
		t.Run(name, func(t *testing.T) {
			s := testSettings()
			set(&s)
			f := startServer(t, s, startIngress(t, answerAll))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var floods, honest sync.WaitGroup
			var opened, late atomic.Int64
			for _, source := range []string{"127.0.1.1", "127.0.1.2", "127.0.1.3"} {
				floods.Go(func() { opened.Add(int64(flood(ctx, source, f.addr))) })
			}
			nstest.Await(t, "somebody has to make room",
				func() bool { return f.rec.count(report.SourceLimit)+f.rec.count(report.Evicted) > 0 })
			for _, source := range []string{"127.0.1.1", "127.0.2.1"} {
				honest.Go(func() {
					for i := 0; i < requests; {
						begin := time.Now()
						got, sent, err := requestInTwoSteps(source, f.addr)
						switch {
						case err == nil && strings.HasSuffix(got, "token.key"):
							i++
						case sent.Sub(begin) > server.MinHeadTime:
							late.Add(1) // this machine is too slow to be served in a flood
						default:
							t.Errorf("request %d from %s: answered %q, %v", i, source, got, err)
							i++
						}
					}
				})
			}
			honest.Wait()
			stop()
			floods.Wait()
			wantNoConnections(t, f)
			t.Logf("%d connections of the flood, %d reset for their source, %d for a slot; %d repeated", opened.Load(),
				f.rec.count(report.SourceLimit), f.rec.count(report.Evicted), late.Load())
		})
	}
}

// requestInTwoSteps connects and then sends a challenge. sent is when that was done, or has failed.
func requestInTwoSteps(source string, to netip.AddrPort) (got string, sent time.Time, err error) {
	tcp, err := net.DialTCP("tcp", &net.TCPAddr{IP: net.ParseIP(source)}, net.TCPAddrFromAddrPort(to))
	if err != nil {
		return "", time.Now(), err
	}
	defer func() { _ = tcp.Close() }()
	_ = tcp.SetDeadline(time.Now().Add(testTimeout))
	_, _ = io.WriteString(tcp, challengeRequest)
	sent = time.Now()
	b, err := io.ReadAll(tcp)
	return string(b), sent, err
}
