// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// newConnPair returns both ends of a connection to a proxy process.
func newConnPair(t *testing.T) (controller *wire.Parent, proxy *wire.Child) {
	t.Helper()
	controller, files, err := wire.NewPair()
	must(t, err)
	proxy, err = wire.NewChild(files)
	must(t, err)
	t.Cleanup(func() {
		_ = controller.Close()
		_ = proxy.Close()
	})
	return controller, proxy
}

// supervisorTest is a supervisor whose goroutine is the test's, and a process whose
// commands the test receives.
type supervisorTest struct {
	*Supervisor

	process *Proxy
	near    *wire.Parent
	far     *wire.Child
}

func newSupervisorTest(t *testing.T) *supervisorTest {
	t.Helper()
	near, far := newConnPair(t)
	// What runs does not matter: the test holds the other end of the connection.
	process, err := sandbox.Start(exec.CommandContext(t.Context(), "sleep", "600"))
	must(t, err)
	t.Cleanup(func() {
		_ = process.Kill()
		<-process.Done()
	})
	p := newProxy(&child.Process{Parent: near, Process: process})
	return &supervisorTest{newTestSupervisor(slog.New(slog.DiscardHandler)), p, near, far}
}

func newTestSupervisor(log *slog.Logger) *Supervisor {
	return NewSupervisor(Dependencies{
		Log: log, Causes: &Causes{}, Heartbeat: func() {}, SetTargets: func([]netip.Addr, uint16) {},
		Listeners: &Listeners{log: log, fds: make(map[uint16]int)},
		Tracker:   tracker.New("test", time.Now(), func(_, _ report.Condition) {}),
	})
}

// expectCommands sends a last command, and checks those that the process received
// before. A command whose text is "" is left out.
func (s *supervisorTest) expectCommands(t *testing.T, want []string, text func(protocol.Command) string) {
	t.Helper()
	must(t, s.near.Send(protocol.Command{ProbeIngress: &protocol.ProbeIngress{}}, -1))
	var all []string
	for {
		var c protocol.Command
		if _, err := s.far.Receive(&c); err != nil || c.ProbeIngress != nil {
			break
		}
		if line := text(c); line != "" {
			all = append(all, line)
		}
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

// The routes through an egress proxy take effect with the configuration that they belong
// to.
func TestEgressIsSentWithConfiguration(t *testing.T) {
	t.Parallel()
	s := newSupervisorTest(t)
	settings := Settings{Config: config.Default()}
	apply := func(upstream, route uint16) {
		settings.Generation++
		settings.Config.Upstream.Port = upstream
		via := ingress.EgressRoute{Ingress: netip.AddrPortFrom(netip.MustParseAddr("198.51.100.6"), route)}
		settings.Egress = ingress.Egress{Routes: []ingress.EgressRoute{via}}
		s.applySettings(settings)
	}
	s.attach(s.process)
	apply(80, 80)
	apply(81, 81)
	apply(81, 82) // a change of the egress proxy alone
	apply(81, 83)
	apply(81, 83)
	want := []string{
		"configure 80 egress 80", "configure 81 egress 81", "configure 81 egress 82",
		"configure 81 egress 83",
	}
	s.expectCommands(t, want, func(c protocol.Command) string {
		if c.Configure == nil {
			return ""
		}
		return fmt.Sprint("configure ", c.Configure.Upstream.Port, " egress ", c.Configure.Egress.Routes[0].Ingress.Port())
	})
}

// A process gets the CAs before its configuration, and the same CAs once.
func TestTrustIsSentFirst(t *testing.T) {
	t.Parallel()
	s := newSupervisorTest(t)
	settings := Settings{Config: config.Default()}
	trusted := func(der byte) *ingress.CABundle {
		return &ingress.CABundle{Roots: [][]byte{{der}}, Description: "a CA"}
	}
	for i, cas := range []*ingress.CABundle{trusted(1), trusted(1), trusted(2), nil, trusted(3)} {
		settings.CAs = cas
		s.applySettings(settings)
		if i == 0 {
			s.attach(s.process)
		}
	}
	want := []string{"trust [[1]]", "configure", "trust [[2]]", "trust [[3]]"}
	s.expectCommands(t, want, func(c protocol.Command) string {
		switch {
		case c.CAs != nil:
			return fmt.Sprint("trust ", c.CAs.Roots)
		case c.Configure != nil:
			return "configure"
		}
		return ""
	})
}

// Settings that were computed before the ports were closed do not configure a process for
// the next time that they are open.
func TestSettingsBeforeCloseAreDropped(t *testing.T) {
	t.Parallel()
	s := newSupervisorTest(t)
	s.attach(s.process)
	settings := Settings{Generation: 1, Config: config.Default()}
	s.applySettings(settings)
	s.startDrain(1)
	s.closeAllPorts(make(chan struct{}, 1))
	s.applySettings(settings)
	if process, _ := s.Serving(); process != nil || s.configured {
		t.Error("settings of a closed proxy count")
	}
	settings.Generation = 2
	s.applySettings(settings)
	if process, _ := s.Serving(); process != s.process {
		t.Error("new settings do not count")
	}
}

// TestLateDrain: what a process reports after the wait for its drain is not about the next one.
func TestLateDrain(t *testing.T) {
	t.Parallel()
	s := newSupervisorTest(t)
	s.attach(s.process)
	s.process.drained.Put(7)
	select {
	case cut := <-s.startDrain(1).drained.Values:
		t.Errorf("the next drain has cut off %d connections", cut)
	default:
	}
}

// TestConnectionOfKilledProxy: a proxy that is killed breaks a message off, or does not take
// a command. Its exit is awaited then, because it is the reason to report.
func TestConnectionOfKilledProxy(t *testing.T) {
	t.Parallel()
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, unix.EPIPE} {
		s := newSupervisorTest(t)
		time.AfterFunc(10*time.Millisecond, func() { _ = s.process.Kill() })
		if got := endReason(s.process.Process, fmt.Errorf("receive: %w", err)); got != "has exited (signal: killed)" {
			t.Errorf("%v: the reason is %q", err, got)
		}
	}
}

// TestClosingPortIsNotOpen: as soon as a port is being closed, an open that follows does
// not rely on it, although systemd's store can take seconds for the closing.
func TestClosingPortIsNotOpen(t *testing.T) {
	t.Parallel()
	s := newSupervisorTest(t)
	for range 2 {
		port, fd := newSocket(t)
		s.Listeners.add(port, fd)
	}
	s.publishPorts()
	kept := s.openPorts()[0]
	for _, tt := range []struct {
		execute func(reply chan struct{})
		want    []uint16
	}{
		{func(reply chan struct{}) { s.closeOthers(kept, true, reply) }, []uint16{kept}},
		{func(reply chan struct{}) { s.closeAllPorts(reply) }, []uint16{}},
	} {
		reply, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			tt.execute(reply)
		}()
		for len(s.openPorts()) != len(tt.want) {
			select {
			case <-done:
				t.Fatalf("closed while openPorts returns %v", s.openPorts())
			default:
			}
		}
		<-reply // the ports are closed only after it
		<-done
		if got := s.openPorts(); !slices.Equal(got, tt.want) {
			t.Errorf("open: %v, want %v", got, tt.want)
		}
	}
}

// newSocket returns a listening socket and its port.
func newSocket(t *testing.T) (port uint16, fd int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, errors.Join(unix.Bind(fd, &unix.SockaddrInet4{}), unix.Listen(fd, 1)))
	port, err = listeningPort(fd)
	must(t, err)
	return port, fd
}

// isListening reports whether a descriptor is still the socket of a port.
func isListening(fd int, port uint16) bool {
	got, err := listeningPort(fd)
	return err == nil && got == port
}

// TestPortIsOpenedAgain: a port that the process is still closing is opened again
// immediately, with the same socket: the reconcile loop does not wait. The report about
// the first close does not end it.
func TestPortIsOpenedAgain(t *testing.T) {
	t.Parallel()
	s := newSupervisorTest(t)
	s.attach(s.process)
	s.applySettings(Settings{Generation: 1, Config: config.Default()})
	kept, fd := newSocket(t)
	s.Listeners.add(kept, fd)
	port, fd := newSocket(t)
	s.Listeners.add(port, fd)
	stopped := func() { s.recordStopped(port) }
	isOpen := func(when string, want bool) {
		t.Helper()
		if open := isListening(fd, port); open != want || slices.Contains(s.openPorts(), port) != want {
			t.Errorf("%s: the socket is open: %t, the open ports are %v", when, open, s.openPorts())
		}
	}
	for range 2 {
		s.closeOthers(kept, true, make(chan struct{}, 1))
		must(t, s.openPort(port))
		isOpen("opened again", true)
	}
	s.closeOthers(kept, true, make(chan struct{}, 1))
	stopped()
	stopped()
	if s.closing[port] == nil {
		t.Error("the reports about the first two times end the third")
	}
	stopped()
	isOpen("closed", false)
	want := slices.Repeat([]string{fmt.Sprint("stop ", port), fmt.Sprint("listen ", port)}, 2)
	s.expectCommands(t, append(want, fmt.Sprint("stop ", port)), portCommand)
}

// portCommand describes a command to open or close a port.
func portCommand(c protocol.Command) string {
	switch {
	case c.Listen != nil:
		return fmt.Sprint("listen ", c.Listen.Port)
	case c.StopListening != nil:
		return fmt.Sprint("stop ", c.StopListening.Port)
	}
	return ""
}

// TestBacklogOfClosedPort: a port that is closed before the process has its settings, or
// between two processes, is given to the next process for the connections in its backlog.
// After a restart with another port these are all connections since its begin.
func TestBacklogOfClosedPort(t *testing.T) {
	t.Parallel()
	s := newSupervisorTest(t)
	s.attach(s.process)
	kept, fd := newSocket(t)
	s.Listeners.add(kept, fd)
	port, fd := newSocket(t)
	s.Listeners.add(port, fd)
	s.closeOthers(kept, true, make(chan struct{}, 1))
	if !isListening(fd, port) || slices.Contains(s.openPorts(), port) {
		t.Errorf("the socket is open: %t, the open ports are %v", isListening(fd, port), s.openPorts())
	}
	s.applySettings(Settings{Generation: 1, Config: config.Default()})
	want := []string{fmt.Sprint("listen ", kept), fmt.Sprint("listen ", port), fmt.Sprint("stop ", port)}
	s.expectCommands(t, want, portCommand)
	must(t, s.far.Send(protocol.Event{Stopped: &protocol.Stopped{Port: port}}))
	(<-s.commands)()
	if isListening(fd, port) || len(s.closing) > 0 {
		t.Error("the socket is open after the process has closed it")
	}
	port, fd = newSocket(t)
	s.Listeners.add(port, fd)
	s.detach()
	s.closeOthers(kept, true, make(chan struct{}, 1))
	if c := s.closing[port]; c == nil || !c.queued || !isListening(fd, port) {
		t.Error("between two processes, the socket is not kept")
	}
	s.checkTimeouts(time.Now().Add(queuedTimeout + time.Second))
	if isListening(fd, port) || len(s.closing) > 0 {
		t.Error("without a process, the socket is not closed after a while")
	}
}

// TestSocketThatCannotBeChecked: without a free descriptor, this process can neither compare a
// listening socket with a new one nor send it. The sockets stay for the next proxy process,
// including the sockets of closed ports with a backlog.
func TestSocketThatCannotBeChecked(t *testing.T) { //nolint:paralleltest // the limit is the whole process's
	settings := Settings{Generation: 1, Config: config.Default()}
	for name, withKept := range map[string]bool{"an open port and a closed one": true, "a closed one": false} {
		s := newSupervisorTest(t)
		s.attach(s.process)
		kept, keptFD := newSocket(t)
		if withKept {
			s.Listeners.add(kept, keptFD)
		}
		port, fd := newSocket(t)
		s.Listeners.add(port, fd)
		s.closeOthers(kept, true, make(chan struct{}, 1))
		withoutDescriptors(t, func() { s.applySettings(settings) })
		<-s.process.Done() // killed
		s.detach()
		if c := s.closing[port]; !isListening(keptFD, kept) || !isListening(fd, port) || c == nil || !c.queued {
			t.Errorf("%s: listening: %t, %t; closing: %+v", name, isListening(keptFD, kept), isListening(fd, port), c)
		}
	}
}

// withoutDescriptors runs f while this process can open none.
func withoutDescriptors(t *testing.T, f func()) {
	t.Helper()
	var before unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before)) }()
	f()
}

// TestSocketIsNotQueued: a socket without connections of redirected clients, or that cannot
// accept them, is not kept for the next process.
func TestSocketIsNotQueued(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*supervisorTest, int){
		"never redirected to": func(*supervisorTest, int) {},
		"all ports are closed": func(s *supervisorTest, _ int) {
			s.closeOthers(1, true, make(chan struct{}, 1))
			s.closeAllPorts(make(chan struct{}, 1))
		},
		"shut down by a process": func(s *supervisorTest, fd int) {
			s.closeOthers(1, true, make(chan struct{}, 1))
			must(t, unix.Shutdown(fd, unix.SHUT_RDWR))
			s.attach(s.process)
			s.applySettings(Settings{Generation: 1, Config: config.Default()})
		},
	} {
		s := newSupervisorTest(t)
		port, fd := newSocket(t)
		s.Listeners.add(port, fd)
		end(s, fd)
		s.closeOthers(1, false, make(chan struct{}, 1))
		if isListening(fd, port) || len(s.closing) > 0 {
			t.Errorf("%s: the socket is kept", name)
		}
	}
}

// TestSocketOfStuckProcess: the socket of a port that a process does not close is closed
// after a while, and when the process ends.
func TestSocketOfStuckProcess(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Supervisor){
		"after a while":    func(s *Supervisor) { s.checkTimeouts(time.Now().Add(stopListeningTimeout + time.Second)) },
		"with the process": (*Supervisor).detach,
	} {
		s := newSupervisorTest(t)
		s.attach(s.process)
		port, fd := newSocket(t)
		s.Listeners.add(port, fd)
		s.closeAllPorts(make(chan struct{}, 1))
		if s.closing[port] == nil {
			t.Errorf("%s: the socket is not kept", name)
		}
		end(s.Supervisor)
		if isListening(fd, port) || len(s.closing) > 0 {
			t.Errorf("%s: the socket is not closed", name)
		}
	}
}

// TestOwnStallIsNoSilence: a service that did not run for a while, as on a paused machine,
// finds the events of a working process in the pipe. It must not replace that process.
func TestOwnStallIsNoSilence(t *testing.T) {
	t.Parallel()
	s := newSupervisorTest(t)
	s.SilenceLimit = SilenceLimit
	s.attach(s.process)
	now := time.Now()
	check := func(after time.Duration) (replaced bool) {
		s.due = s.nextCheck(now)
		now = now.Add(after)
		s.checkTimeouts(now)
		return s.Supervisor.process == nil
	}
	if check(time.Second) || check(time.Minute) {
		t.Fatal("replaced after a stall of this process")
	}
	if check(SilenceLimit - 1) {
		t.Fatal("replaced too early")
	}
	if !check(1) {
		t.Error("a silent process is not replaced")
	}
}

// TestSettingsApplied: settings are applied when the process handled them. A process
// that ends before passes that on to its successor.
func TestSettingsApplied(t *testing.T) {
	t.Parallel()
	s, successor := newSupervisorTest(t), newSupervisorTest(t)
	applied := make(chan struct{})
	awaitFlush := func(far *wire.Child) {
		for {
			var c protocol.Command
			_, err := far.Receive(&c)
			if err != nil {
				t.Error(err)
			}
			if err != nil || c.Flush != nil {
				return
			}
		}
	}
	s.attach(s.process)
	s.applySettings(Settings{Generation: 1, Config: config.Default()})
	go func() {
		defer close(applied)
		s.awaitSettings(t.Context(), 2)
	}()
	s.applySettings(Settings{Generation: 2, Config: config.Default()})
	awaitFlush(s.far)
	must(t, s.process.Kill())
	s.detach()
	s.attach(successor.process)
	awaitFlush(successor.far)
	select {
	case <-applied:
		t.Error("applied before the process has handled the settings")
	default:
	}
	must(t, successor.far.Send(protocol.Event{Flushed: &protocol.Flushed{}}))
	<-applied
}

// TestStatisticsDoNotWaitForSupervisor: the supervisor can be in a system call that takes
// seconds. Here nobody runs it.
func TestStatisticsDoNotWaitForSupervisor(t *testing.T) {
	t.Parallel()
	s := newSupervisorTest(t)
	recorded := uint64(0)
	s.Record = func(n *protocol.Stats) { recorded += n.Rejected[0].Count }
	s.attach(s.process)
	s.applySettings(Settings{Generation: 1, Config: config.Default()})
	go func() {
		for {
			var c protocol.Command
			if _, err := s.far.Receive(&c); err != nil {
				return
			}
			if c.Flush != nil {
				rejected := report.RejectionCount{Rejection: report.SourceLimit, ClientKind: report.OtherClient, Count: 7}
				_ = s.far.Send(protocol.Event{Stats: &protocol.Stats{Rejected: []report.RejectionCount{rejected}}})
				_ = s.far.Send(protocol.Event{Flushed: &protocol.Flushed{}})
			}
		}
	}()
	s.Flush()
	if recorded != 7 {
		t.Errorf("%d connections are recorded", recorded)
	}
}

// TestUnansweredCommandsAreBounded: a process that was taken over can read its commands and
// send heartbeats, and answer nothing. It is replaced, and its commands do not accumulate.
func TestUnansweredCommandsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSupervisorTest(t)
	s.SilenceLimit = SilenceLimit
	s.attach(s.process)
	now := time.Now()
	check := func(after time.Duration) (replaced bool) {
		s.due = s.nextCheck(now)
		now = now.Add(after)
		s.process.recordEvent(now)
		s.checkTimeouts(now)
		return s.Supervisor.process == nil
	}
	check(0)
	for i := range 2 * maxUnanswered {
		if i < maxUnanswered && check(time.Second) {
			t.Fatalf("replaced with %d commands", i)
		}
		s.process.request(protocol.Command{Flush: &protocol.Flush{}})
		if i < maxUnanswered {
			var c protocol.Command
			_, err := s.far.Receive(&c)
			must(t, err)
		}
	}
	if n := len(s.process.flushes); n != maxUnanswered {
		t.Errorf("%d commands wait for an answer, want %d", n, maxUnanswered)
	}
	if check(time.Minute) {
		t.Error("replaced after a stall of this process")
	}
	if !check(time.Second) {
		t.Error("a process that answers nothing is not replaced")
	}
}

// Whatever a process has done to the listening socket ends with it. If an option cannot be
// reset, the next process gets another socket, which new clients reach immediately, and the
// clients of the old one are served.
func TestListenersOfNextProxy(t *testing.T) {
	nstest.Require(t)
	nstest.Run(t, "ip", "link", "add", "d0", "type", "veth", "peer", "name", "d1")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "d0").Run() })
	filter := func(fd int) error {
		none := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &none})
	}
	for name, tt := range map[string]struct {
		sockets int // that the next process gets
		change  func(fd int) error
	}{
		"nothing":   {1, func(int) error { return nil }},
		"IP_MINTTL": {1, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MINTTL, 255) }},
		"SO_RCVBUF": {1, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1) }},
		"TCP_DEFER_ACCEPT": {1, func(fd int) error {
			return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 3600)
		}},
		"SO_BINDTODEVICE":  {1, func(fd int) error { return unix.BindToDevice(fd, "d0") }},
		"SO_ATTACH_FILTER": {1, filter},
		"SO_LOCK_FILTER": {2, func(fd int) error {
			return errors.Join(filter(fd), unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LOCK_FILTER, 1))
		}},
		"shutdown": {1, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_RD) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSupervisorTest(t)
			s.configured, s.current.Config = true, config.Default()
			old, err := listen(0)
			must(t, err)
			port, err := listeningPort(old)
			must(t, err)
			s.Listeners.add(port, old)
			dial := func() (net.Conn, error) {
				return net.DialTimeout("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))), time.Second)
			}
			before, err := dial() // it waits in the old backlog
			must(t, err)
			defer before.Close()
			must(t, tt.change(old))
			for later := range 3 { // processes
				want := 1
				if later == 0 {
					want = tt.sockets
				}
				s.attach(s.process)
				var sockets []int
				for len(sockets) < want {
					var c protocol.Command
					fd, err := s.far.Receive(&c)
					must(t, err)
					if c.Listen != nil {
						sockets = append(sockets, fd)
					}
				}
				fresh := sockets[len(sockets)-1]
				for range 20 {
					conn, err := dial()
					if err != nil {
						t.Fatalf("a client: %v", err)
					}
					_ = conn.Close()
				}
				must(t, unix.SetNonblock(fresh, true))
				for range 20 {
					// The last segment of a handshake can arrive after the client's connect.
					_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fresh), Events: unix.POLLIN}}, 5000)
					fd, _, err := unix.Accept4(fresh, unix.SOCK_CLOEXEC)
					if err != nil {
						t.Fatalf("a client did not arrive at the new socket: %v", err)
					}
					_ = unix.Close(fd)
				}
				if len(sockets) > 1 {
					nstest.Await(t, "no process can accept from the old socket", func() bool {
						return !isListening(sockets[0], port)
					})
				}
				for _, fd := range sockets {
					_ = unix.Close(fd)
				}
			}
			for _, port := range s.Listeners.Ports() {
				s.Listeners.close(port)
			}
		})
	}
}

// TestConnectionBound: as many clients are served as the descriptors of the process and the ports
// of the host allow.
func TestConnectionBound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		maxConnections, descriptors, ports int
		want                               int
		reason                             string
	}{
		{4096, 16384, 28232, 4096, ""},
		{1, 256, 28232, 1, "the descriptor limit is 256; raise LimitNOFILE to 642"},
		{8192, 16384, 28232, 5725, "the descriptor limit is 16384; raise LimitNOFILE to 23168"},
		{1 << 20, math.MaxInt32, 28232, 11292, "the host has 28232 ports for connections to one ingress address; " +
			"raise net.ipv4.ip_local_port_range"},
		{4096, 16384, 64, 25, "the host has 64 ports for connections to one ingress address; " +
			"raise net.ipv4.ip_local_port_range"},
		{4096, 16384, 0, 1, "the host has 0 ports for connections to one ingress address; " +
			"raise net.ipv4.ip_local_port_range"},
	} {
		bound, reason := connectionBound(tt.maxConnections, tt.descriptors, tt.ports)
		if bound != tt.want || reason != tt.reason {
			t.Errorf("%d, %d descriptors, %d ports: %d, %q; want %d, %q",
				tt.maxConnections, tt.descriptors, tt.ports, bound, reason, tt.want, tt.reason)
		}
		// Each slot has one connection, and a quarter as many are idle.
		if used := bound + bound/4; bound > 1 && used > tt.ports/2 {
			t.Errorf("%d connections with %d ports", used, tt.ports)
		}
	}
	if n := ephemeralPorts(); n < 2 || n > math.MaxUint16 {
		t.Errorf("this host has %d ephemeral ports", n)
	}
}
