// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/rig"
)

const (
	programInGuest  = "/programs/http01-proxyd"
	watchdogTimeout = 30 * time.Second // WatchdogSec of the unit
	// responseTimeout is longer than every timeout of the proxy for a request head.
	responseTimeout = time.Minute
)

// The clients' rate, and how many requests can be in flight.
const (
	requestsPerSecond = 20
	inFlight          = 20
)

// service is a running service that holds VIPs, with honest clients.
type service struct {
	*rig.Rig
	*rig.Unit

	t       *testing.T
	clients *rig.Clients
}

// vips returns the API VIPs that the host holds, one of each family, sorted.
func vips() []netip.Addr { return rig.APIVIPs()[:2] }

// laterVIP returns an API VIP that the configuration gets after a step. The host never holds
// it.
func laterVIP() netip.Addr { return rig.APIVIPs()[2] }

// stepAll steps the clock of the machine.
func stepAll(t *testing.T) {
	t.Helper()
	s := start(t)
	for _, one := range steps() {
		t.Run(one.name, func(t *testing.T) {
			s.t = t
			before := s.processes()
			completed, silent := s.sendHalfHeads(), s.sendHalfHeads()
			s.awaitRead(append(completed, silent...))
			at := s.stepClock(one.by)
			s.expectAnswered(completed)
			s.expectTimeout(silent)
			s.expectServed(at)
			s.expectVIPMoves()
			s.expectConfigurationFollowed()
			s.expectHeartbeat()
			if diff := cmp.Diff(before, s.processes()); diff != "" {
				t.Errorf("processes (-before +after the step):\n%s\n%s", diff, s.Tail())
			}
			s.expectStatusText()
			// The next process reads files that were written before and after the step.
			s.clients.Pause()
			must(t, s.Restart(t.Context()))
			must(t, s.AwaitReady(t.Context()))
			s.clients.Resume()
			s.expectServed(time.Now())
		})
	}
}

// start runs the service until the test ends, and waits until it answers challenges.
func start(t *testing.T) *service {
	t.Helper()
	network, err := rig.New(t.Context(), programInGuest)
	must(t, err)
	t.Cleanup(func() { must(t, network.Close()) })
	ingress, err := network.StartIngress(t.Context())
	must(t, err)
	t.Cleanup(ingress.Close)
	unit, err := network.NewUnit("env", fmt.Sprintf("WATCHDOG_USEC=%d", watchdogTimeout.Microseconds()))
	must(t, err)
	s := &service{Rig: network, Unit: unit, t: t}
	s.configure(vips())
	must(t, s.Start())
	t.Cleanup(func() { must(t, s.Unit.Close(context.WithoutCancel(t.Context()))) })
	must(t, s.AwaitReady(t.Context()))
	for _, vip := range vips() {
		must(t, s.AddVIP(vip, 0, rig.Usable))
	}
	s.clients = s.StartClients(t.Context(), vips(), requestsPerSecond, time.Second, inFlight,
		func(netip.Addr) bool { return true })
	t.Cleanup(s.clients.Close)
	s.awaitServing()
	s.clients.Resume()
	s.expectServed(time.Now())
	return s
}

// configure replaces the configuration, with these API VIPs.
func (s *service) configure(api []netip.Addr) {
	s.t.Helper()
	quoted := func(all []netip.Addr) string { return `"` + strings.Join(texts(all), `", "`) + `"` }
	path := filepath.Join(s.Dir, "config.yaml")
	must(s.t, os.WriteFile(path+".new",
		fmt.Appendf(nil, "vips: {api: [%s], ingress: [%s]}\nmetrics: {listenAddress: \":9645\"}\nselfTest: {interval: 1m}\n",
			quoted(api), quoted(rig.IngressVIPs())), 0o600))
	must(s.t, os.Rename(path+".new", path))
}

func texts(all []netip.Addr) (out []string) {
	for _, a := range all {
		out = append(out, a.String())
	}
	return out
}

// processes returns the process IDs of the controller and of its lasting child processes, when
// all of them run.
func (s *service) processes() (pids map[string]int) {
	s.t.Helper()
	must(s.t, lab.Eventually(s.t.Context(), "all processes", func(context.Context) error {
		pids = map[string]int{"controller": s.PID(), "proxy": s.Child("proxy"), "exporter": s.Child("exporter")}
		for name, pid := range pids {
			if pid == 0 {
				return fmt.Errorf("the %s does not run", name)
			}
		}
		return nil
	}))
	return pids
}

// stepClock steps CLOCK_REALTIME, and returns a time just after the step.
func (s *service) stepClock(by time.Duration) time.Time {
	s.t.Helper()
	before := time.Now()
	to := unix.NsecToTimespec(before.Add(by).UnixNano())
	must(s.t, unix.ClockSettime(unix.CLOCK_REALTIME, &to))
	after := time.Now()
	// Round(0) drops the monotonic part, which does not step.
	if stepped := after.Round(0).Sub(before.Round(0)); (stepped - by).Abs() > time.Minute {
		s.t.Fatalf("the clock has stepped by %v, want %v", stepped, by)
	}
	return after
}

// expectServed expects both VIPs in the table, the state Serving, an answer to a request that
// begins after a time, and no lost request.
func (s *service) expectServed(after time.Time) {
	s.t.Helper()
	s.awaitTable(vips())
	for _, vip := range vips() {
		must(s.t, lab.Eventually(s.t.Context(), "a challenge for "+vip.String(), func(context.Context) error {
			if last := s.clients.LastAnswered(vip); !last.After(after) {
				return fmt.Errorf("the last request that was answered began %v before", after.Sub(last))
			}
			return nil
		}))
	}
	s.awaitServing()
	for _, f := range s.clients.TakeFailures() {
		if !f.Aborted {
			s.t.Errorf("lost: %v after %v: %v", f.VIP, f.End.Sub(f.Start), f.Err)
		}
	}
}

const firstHalf = "GET /.well-known/acme-challenge/in-flight HTTP/1.1\r\nHost: api.lab.test\r\n"

// sendHalfHeads sends the first half of a request to each VIP.
func (s *service) sendHalfHeads() (conns []net.Conn) {
	s.t.Helper()
	for _, vip := range vips() {
		conn, err := s.Outside.Dial(s.t.Context(), "tcp", netip.AddrPortFrom(vip, 80).String())
		must(s.t, err)
		s.t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, firstHalf)
		must(s.t, err)
		conns = append(conns, conn)
	}
	return conns
}

// awaitRead waits until the proxy process reads the first halves: its timeouts run.
func (s *service) awaitRead(halves []net.Conn) {
	s.t.Helper()
	must(s.t, lab.Eventually(s.t.Context(), "the first halves are read", func(ctx context.Context) error {
		sockets, err := s.Sockets(ctx, s.Host)
		for _, conn := range halves {
			read := func(o rig.Socket) bool {
				return o.Remote.String() == conn.LocalAddr().String() && o.State == "ESTAB" && o.Recv == 0
			}
			if err == nil && !slices.ContainsFunc(sockets, read) {
				err = fmt.Errorf("the one from %v is not", conn.LocalAddr())
			}
		}
		return err
	}))
}

// expectAnswered sends the second half of each request, and expects the answer: the step has
// ended no timeout.
func (s *service) expectAnswered(halves []net.Conn) {
	s.t.Helper()
	for _, conn := range halves {
		_, err := io.WriteString(conn, "Connection: close\r\n\r\n")
		must(s.t, err)
		s.expectResponse(conn, http.StatusOK)
	}
}

// expectTimeout expects that requests which stay incomplete end: the step has delayed no
// timeout.
func (s *service) expectTimeout(halves []net.Conn) {
	s.t.Helper()
	for _, conn := range halves {
		s.expectResponse(conn, http.StatusRequestTimeout)
	}
}

func (s *service) expectResponse(conn net.Conn, status int) {
	s.t.Helper()
	must(s.t, conn.SetReadDeadline(time.Now().Add(responseTimeout)))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(s.t, err)
	_ = response.Body.Close()
	if response.StatusCode != status {
		s.t.Errorf("%v: status %d, want %d", conn.RemoteAddr(), response.StatusCode, status)
	}
}

func (s *service) awaitServing() {
	s.t.Helper()
	must(s.t, lab.Eventually(s.t.Context(), "Serving", func(ctx context.Context) error {
		seen, err := s.Status(ctx)
		if got := seen.Condition(); err == nil && got.Reason != "Serving" {
			return fmt.Errorf("the reason is %s: %s", got.Reason, got.Message)
		}
		return err
	}))
}

// awaitTable waits until the table has exactly these VIPs, as the real nft lists it.
func (s *service) awaitTable(want []netip.Addr) {
	s.t.Helper()
	must(s.t, lab.Eventually(s.t.Context(), "the table", func(ctx context.Context) error {
		table, err := s.ServiceTable(ctx)
		if err != nil {
			return err
		}
		if table == nil {
			return fmt.Errorf("no table, want %v", want)
		}
		if !slices.Equal(table.Elements, want) {
			return fmt.Errorf("the table has %v, want %v", table.Elements, want)
		}
		return nil
	}))
}

// expectVIPMoves removes each VIP, and adds it again.
func (s *service) expectVIPMoves() {
	s.t.Helper()
	s.clients.Pause()
	for i, vip := range vips() {
		must(s.t, s.RemoveVIP(vip))
		s.awaitTable(slices.Delete(slices.Clone(vips()), i, i+1))
		must(s.t, s.AddVIP(vip, 0, rig.Usable))
		s.awaitTable(vips())
	}
	s.clients.Resume()
	s.expectServed(time.Now())
}

// expectConfigurationFollowed adds an API VIP to the configuration, and removes it: the new
// file can be older than the one before.
func (s *service) expectConfigurationFollowed() {
	s.t.Helper()
	for _, want := range []string{"Standby", ""} {
		api := vips()
		if want != "" {
			api = append(slices.Clone(api), laterVIP())
		}
		s.configure(api)
		must(s.t, lab.Eventually(s.t.Context(), "the new configuration", func(ctx context.Context) error {
			seen, err := s.Status(ctx)
			if got := seen.VIPState(laterVIP().String()); err == nil && got != want {
				return fmt.Errorf("VIP %v is %q, want %q", laterVIP(), got, want)
			}
			return err
		}))
	}
}

// expectHeartbeat expects the notifications without which systemd restarts the service.
func (s *service) expectHeartbeat() {
	s.t.Helper()
	for range 2 {
		select {
		case <-s.Heartbeat():
		case <-time.After(watchdogTimeout):
			s.t.Fatalf("no WATCHDOG=1 in %v\n%s", watchdogTimeout, s.Tail())
		}
	}
}

// expectStatusText expects that the status command succeeds, with times before and after
// the step.
func (s *service) expectStatusText() {
	s.t.Helper()
	out, err := s.Host.Run(s.t.Context(), programInGuest, "status", "--status-socket", s.StatusSocket())
	must(s.t, err)
	if !strings.Contains(out, "Serving") {
		s.t.Errorf("the status command prints:\n%s", out)
	}
}
