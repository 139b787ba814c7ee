// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// shortLivenessTiming shortens the intervals of the service's own requests. A working
// process on a loaded machine must answer within the timeout.
const shortLivenessTiming = serviceTiming +
	`={"LivenessInterval": 200000000, "LivenessRetryInterval": 100000000, "LivenessTimeout": 1000000000, "ProxySilenceLimit": 60000000000}`

// runProxy is the proxy process, or one that runs and answers wrongly: in the way that the
// file names whose path is the name of the program.
func runProxy(ctx context.Context, conn *wire.Child) error {
	behavior, err := os.ReadFile(os.Args[0])
	if filepath.Base(os.Args[0]) != "wrong-proxy" || err != nil {
		return proxy.RunConfined(ctx, conn)
	}
	go func() {
		for range time.Tick(time.Second) {
			_ = conn.Send(protocol.Event{Heartbeat: &protocol.Heartbeat{}})
		}
	}()
	_ = conn.Send(protocol.Event{Heartbeat: &protocol.Heartbeat{}})
	for {
		var command protocol.Command
		fd, err := conn.Receive(&command)
		if err != nil {
			return nil //nolint:nilerr // its end
		}
		if command.Flush != nil {
			_ = conn.Send(protocol.Event{Flushed: &protocol.Flushed{}})
		}
		if command.Listen == nil {
			continue
		}
		ln, err := net.FileListener(os.NewFile(uintptr(fd), "listener"))
		if err != nil {
			return err
		}
		go answerWrongly(ln, string(behavior))
	}
}

func answerWrongly(ln net.Listener, behavior string) {
	for {
		client, err := ln.Accept()
		if err != nil {
			return
		}
		switch behavior {
		case "silent":
			go func() { _, _ = io.Copy(io.Discard, client) }()
		case "wrong":
			_, _ = client.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
			_ = client.Close()
		case "reset":
			_ = client.(*net.TCPConn).SetLinger(0) //nolint:forcetypeassert // a listener of TCP
			_ = client.Close()
		}
	}
}

// A process that runs and does not answer is replaced.
func TestProxyDoesNotAnswer(t *testing.T) {
	for _, tt := range []struct{ behavior, requests, reason string }{
		{"silent", "3", "(response timed out)"},
		{"wrong", "3", "(the response status is not 400)"},
		{"reset", "40", "(the connection was reset)"}, // as under load
	} {
		t.Run(tt.behavior, func(t *testing.T) {
			addNetwork(t, writeKey)
			s := newService(t, explicit)
			behavior := filepath.Join(s.dir, "wrong-proxy")
			if err := os.WriteFile(behavior, []byte(tt.behavior), 0o600); err != nil {
				t.Fatal(err)
			}
			// the process has another user
			for path, mode := range map[string]os.FileMode{behavior: 0o644, filepath.Dir(s.dir): 0o755} {
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
			}
			s.start([]string{shortLivenessTiming}, "bash", "-c", `exec -a "$0" "$1"`, behavior)
			s.awaitReason(report.Standby)
			pid := s.awaitNewProxy(0)
			if err := os.Remove(behavior); err != nil { // the next process answers
				t.Fatal(err)
			}
			begin := time.Now()
			addVIP(t)
			s.awaitReason(report.ProxyUnavailable)
			s.awaitReason(report.Serving)
			t.Logf("answered after %v", time.Since(begin).Round(time.Millisecond))
			s.awaitNewProxy(pid)
			s.awaitLog("has not answered " + tt.requests + " requests of this service in a row to port 80 of " + vip + " " +
				tt.reason)
			s.awaitLog("Serving: holds " + vip)
			if text := s.log.String(); strings.Count(text, "Serving: ") != 1 || strings.Count(text, "event=proxy\n") != 1 {
				t.Errorf("Serving before, or replaced more than once:\n%s", text)
			}
			s.stop()
		})
	}
}

// A process that accepts no connections is replaced before the silence limit. The condition
// is ProxyUnavailable meanwhile.
func TestProxyDoesNotAccept(t *testing.T) {
	s := startServing(t, shortLivenessTiming)
	pid := s.awaitNewProxy(0)
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	s.awaitReason(report.ProxyUnavailable)
	t.Logf("noticed after %v", time.Since(begin).Round(time.Millisecond))
	s.awaitNewProxy(pid)
	s.awaitReason(report.Serving)
	s.awaitLog("has not answered 3 requests of this service in a row")
	if code, _ := request(t, "/"); code != 400 {
		t.Errorf("afterwards: %d", code)
	}
	s.await("one refused request, which was not ours", func(r report.Report) bool {
		return r.Challenges.Rejected[report.NotChallenge] == 1 && len(r.Challenges.Rejected) == 1
	})
	s.stop()
}

// TestOwnStallIsNoFailure: a request of the service's own that expires while the service does
// not run is no failure of the proxy process.
func TestOwnStallIsNoFailure(t *testing.T) {
	addNetwork(t, writeKey)
	s := newService(t, explicit)
	s.start([]string{strings.Replace(shortLivenessTiming, `"LivenessTimeout": 1000000000`, `"LivenessTimeout": 3000000000`,
		1)})
	s.awaitReason(report.Standby)
	proxy, controller := s.awaitNewProxy(0), s.cmd.Process.Pid
	must(t, unix.Kill(proxy, unix.SIGSTOP))
	if !nstest.Poll(func() bool { return isStopped(proxy) }) {
		t.Fatal("the proxy process continues")
	}
	addVIP(t)
	// The kernel has completed the handshake, and the process does not accept.
	inFlight := func() bool {
		return strings.Contains(nstest.Run(t, "ss", "-Htn", "state", "established", "src", vip, "dport", "80"), vip)
	}
	if !nstest.Poll(inFlight) {
		t.Fatal("no request")
	}
	must(t, unix.Kill(controller, unix.SIGSTOP))
	<-time.After(8 * time.Second) // the fault; the request expires after three
	must(t, unix.Kill(controller, unix.SIGCONT))
	must(t, unix.Kill(proxy, unix.SIGCONT))
	s.awaitReason(report.Serving)
	if now := s.proxyPID(); now != proxy {
		t.Errorf("process %d was replaced by %d", proxy, now)
	}
	s.stop()
	if log := s.log.String(); strings.Contains(log, "reason=ProxyUnavailable") {
		t.Errorf("other transitions:\n%s", log)
	}
}

// The service's own requests are in no reported number, and change no condition.
func TestOwnRequestsAreNotReported(t *testing.T) {
	s := startServing(t, shortLivenessTiming)
	counted := func(r report.Report) (packets uint64) {
		for _, c := range r.Table.Counters {
			if c.Chain == "output" {
				packets += c.Packets
			}
		}
		return packets
	}
	r := s.await("ten requests of the service's own", func(r report.Report) bool { return counted(r) >= 10 })
	if len(r.Challenges.Rejected) != 0 || len(r.Traffic.Requests) != 0 {
		t.Errorf("the report has %v, %v", r.Challenges.Rejected, r.Traffic.Requests)
	}
	if code, _ := request(t, "/"); code != 400 {
		t.Errorf("a request of another: %d", code)
	}
	s.await("one request of another client",
		func(r report.Report) bool { return r.Challenges.Rejected[report.NotChallenge] == 1 })
	r = s.await("ten more", func(r report.Report) bool { return counted(r) >= 21 })
	if n := r.Challenges.Rejected[report.NotChallenge]; n != 1 || len(r.Challenges.Rejected) != 1 {
		t.Errorf("the report has %v", r.Challenges.Rejected)
	}
	s.stop()
	log := s.log.String()
	if !strings.Contains(log, "1 requests rejected in the last minute: 1 not-challenge") {
		t.Errorf("the journal has another number:\n%s", log)
	}
	if strings.Count(log, "reason=Serving") != 1 || strings.Contains(log, "reason=ProxyUnavailable") {
		t.Errorf("other transitions:\n%s", log)
	}
}

// Firewall rules that drop this host's own connections replace no process and do not end
// Serving: other clients can be served.
func TestOwnRequestsAreDropped(t *testing.T) {
	for name, rules := range map[string]string{
		"dropped": "chain input { type filter hook input priority 5; iif lo tcp dport 8888 drop; }",
		"refused": "chain output { type filter hook output priority -300; oif lo tcp dport 80 notrack; }",
	} {
		t.Run(name, func(t *testing.T) {
			addNetwork(t, writeKey)
			nstest.RunWithInput(t, "table inet foreign {\n"+rules+"\n}\n", "nft", "-f", "-")
			s := newService(t, explicit)
			s.start([]string{shortLivenessTiming})
			s.awaitReason(report.Standby)
			pid := s.awaitNewProxy(0)
			addVIP(t)
			r := s.awaitReason(report.Serving)
			if want := "do not reach the service ("; !strings.Contains(r.Condition().Message, want) {
				t.Errorf("message %q lacks %q", r.Condition().Message, want)
			}
			nstest.Run(t, "nft", "delete", "table", "inet", "foreign")
			s.await("the note is gone",
				func(r report.Report) bool { return !strings.Contains(r.Condition().Message, "do not reach") })
			if s.proxyPID() != pid {
				t.Error("the process was replaced")
			}
			s.stop()
		})
	}
}
