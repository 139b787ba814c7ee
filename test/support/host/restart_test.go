// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
)

const (
	restarts = 100
	kills    = 100
	// perSecond is the load in requests a second during restarts and kills.
	perSecond = 500
	// maxInFlight is the maximum of connections in flight. limits.perSource (256) resets
	// more from one source, and a busy machine answers slowly.
	maxInFlight = 200
	// maxIdleInFlight is above the number of connections in flight at any time while the
	// service answers.
	maxIdleInFlight = 5
)

// load requests challenges from the API VIPs in turn, one connection each.
type load struct {
	started, answered, refused, lost atomic.Int64
	stop                             context.CancelFunc
	over                             sync.WaitGroup

	mu       sync.Mutex
	failures []string // the first failures
	waited   []time.Duration
}

func (s *service) load() *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{stop: cancel}
	s.t.Cleanup(l.end)
	l.over.Go(func() {
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if l.inFlight() >= maxInFlight {
					continue
				}
				l.started.Add(1)
				vip, token := s.api[i%2], fmt.Sprintf("load-%d", i)
				l.over.Go(func() { l.request(vip, token) })
			}
		}
	})
	return l
}

// end stops the load and waits for requests in flight.
func (l *load) end() {
	l.stop()
	l.over.Wait()
}

// requestTimeout is above the 5 s that a restart may take for requests in flight, and below
// the 10 s of Let's Encrypt.
const requestTimeout = 9 * time.Second

// request counts one challenge. An accepted connection that ends without the whole answer
// is lost.
func (l *load) request(vip netip.Addr, token string) {
	begin := time.Now()
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(vip.String(), "80"), requestTimeout)
	if err != nil {
		l.recordFailure(&l.refused, err)
		return
	}
	defer conn.Close()
	err = errors.Join(conn.SetDeadline(begin.Add(requestTimeout)), func() error {
		_, err := fmt.Fprintf(conn, "GET %s%s HTTP/1.1\r\nHost: %s\r\n\r\n", prefix, token, apiName)
		return err
	}())
	if err != nil {
		l.recordFailure(&l.lost, err)
		return
	}
	answer, err := io.ReadAll(io.LimitReader(conn, maxBytes))
	if err == nil && (!strings.HasPrefix(string(answer), "HTTP/1.1 200 ") || !strings.HasSuffix(string(answer),
		keyAuthorization(token))) {
		err = fmt.Errorf("answered %.200q", answer)
	}
	if err != nil {
		l.recordFailure(&l.lost, err)
		return
	}
	l.answered.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waited = append(l.waited, time.Since(begin))
}

func (l *load) recordFailure(count *atomic.Int64, err error) {
	count.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failures) < 10 {
		l.failures = append(l.failures, err.Error())
	}
}

// inFlight returns the number of started connections that have not ended.
func (l *load) inFlight() int64 {
	return l.started.Load() - l.answered.Load() - l.refused.Load() - l.lost.Load()
}

func (l *load) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := fmt.Sprintf("%d connections: %d refused, %d incomplete", l.started.Load(), l.refused.Load(), l.lost.Load())
	if n := len(l.waited); n > 0 {
		slices.SortFunc(l.waited, cmp.Compare)
		text += fmt.Sprintf("; answered within %.1f ms (p50), %.0f ms (p99), %.0f ms at the longest",
			ms(l.waited[n/2]), ms(l.waited[n*99/100]), ms(l.waited[n-1]))
	}
	return text
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// proxyPID returns the process ID of the proxy. While the prober reads certificates, it is
// not the only child.
func (s *service) proxyPID() string {
	return strings.TrimSpace(s.run("sh", "-c", "for pid in $(cat /proc/"+s.property("MainPID")+"/task/*/children); do "+
		"if tr '\\0' ' ' < /proc/$pid/cmdline | grep -q ' proxy '; then echo $pid; fi; done"))
}

// TestRestarts restarts the service under load, every tenth time with a changed binary as
// in an upgrade. No connection is refused, and every accepted one gets its answer.
func TestRestarts(t *testing.T) {
	s := startServing(t)
	l := s.load()
	begin := time.Now()
	for i := range restarts {
		if i%10 == 9 {
			// Another file, as in a release; bytes after the program have no effect.
			s.run("sh", "-c", "{ cat "+binaryPath+" && echo release; } >"+binaryPath+".next && chmod 755 "+binaryPath+
				".next && mv "+binaryPath+".next "+binaryPath)
		}
		s.systemctl("restart", unit)
	}
	if running := s.run("sh", "-c", "tail -qn "+strconv.Itoa(restarts/10)+" /proc/"+s.property("MainPID")+
		"/exe | grep -cx release"); running != strconv.Itoa(restarts/10)+"\n" {
		t.Errorf("%s of %d changed binaries were installed and run", running, restarts/10)
	}
	elapsed := time.Since(begin) / restarts
	l.end()
	t.Logf("%d restarts at %d connections/s, %v each: %v", restarts, perSecond, elapsed.Round(time.Millisecond), l)
	if l.refused.Load() > 0 || l.lost.Load() > 0 || l.answered.Load() < restarts {
		t.Errorf("%v: %q", l, l.failures)
	}
	s.awaitStatus("Serving: ")
	s.systemctl("stop", unit)
	s.wantNothingLeft()
}

// TestRestartWhileAFileIsWritten holds that a restart with a half-written keepalived.conf
// keeps the table of the previous run.
func TestRestartWhileAFileIsWritten(t *testing.T) {
	s := startServing(t)
	l := s.load()
	s.requireNoError(s.node.WriteFile(keepalivedConf, "vrrp_instance torn {\n", 0o644))
	s.systemctl("restart", "--no-block", unit)
	s.awaitProperties(map[string]string{"ActiveState": "activating"})
	if !s.hasTable() {
		t.Error("no table during the restart")
	}
	s.requireNoError(s.node.WriteFile(keepalivedConf, s.keepalivedConf(), 0o644))
	s.awaitStatus("Serving: holds ")
	l.end()
	t.Log(l)
	if l.refused.Load() > 0 || l.lost.Load() > 0 || l.answered.Load() == 0 {
		t.Errorf("%v: %q", l, l.failures)
	}
}

// TestKills kills the controller and the proxy in turn under load. No connection is
// refused, and only accepted connections are lost.
func TestKills(t *testing.T) {
	s := startServing(t)
	l := s.load()
	flying := int64(0)
	begin := time.Now()
	for i := range kills {
		victim := s.property("MainPID")
		if i%2 == 1 {
			victim = s.proxyPID()
		}
		// Requests that waited for the last replacement do not count for this kill.
		s.until("few connections in flight", func(context.Context) error {
			if n := l.inFlight(); n > maxIdleInFlight {
				return fmt.Errorf("%d are in flight", n)
			}
			return nil
		})
		pid, err := s.node.PID(victim)
		s.requireNoError(err)
		before := l.inFlight()
		s.requireNoError(unix.Kill(pid, unix.SIGKILL))
		// An upper bound of the connections that the killed process had accepted. Further
		// lost ones were reset before.
		flying += max(before, l.inFlight())
		s.until("the replacement", func(ctx context.Context) error {
			p, err := s.node.Properties(ctx, unit, "MainPID", "ActiveState")
			if err != nil {
				return err
			}
			if p["ActiveState"] != "active" || p["MainPID"] == victim {
				return fmt.Errorf("%v", p)
			}
			if again := s.proxyPID(); again == "" || again == victim {
				return fmt.Errorf("the proxy process is %q", again)
			}
			return nil
		})
	}
	elapsed := time.Since(begin) / kills
	l.end()
	t.Logf("%d SIGKILLs at %d connections/s, %v each, %d in flight at them together: %v", kills, perSecond,
		elapsed.Round(time.Millisecond), flying, l)
	if l.refused.Load() > 0 || l.lost.Load() > flying || l.answered.Load() < kills {
		t.Errorf("%v: %q", l, l.failures)
	}
}

// TestFailedLeavesNothing holds that nothing redirects to a failed unit.
func TestFailedLeavesNothing(t *testing.T) {
	s := newService(t, true)
	s.override("Restart=no")
	s.systemctl("start", unit)
	s.awaitStatus("Serving: ")
	s.run("kill", "-KILL", s.property("MainPID"))
	s.awaitProperties(map[string]string{"ActiveState": "failed"})
	s.awaitCompanionsEnd()
	s.wantNothingLeft()
}

// TestStopWithoutBus holds the same when the service cannot detect over D-Bus that it is
// stopped permanently.
func TestStopWithoutBus(t *testing.T) {
	s := startServing(t)
	s.systemctl("stop", "dbus.socket", "dbus-broker.service")
	s.runOnCleanup("systemctl", "start", "dbus.socket", "dbus-broker.service")
	s.systemctl("stop", unit)
	s.awaitCompanionsEnd()
	s.wantNothingLeft()
}

// TestRestartCommands runs the commands of docs/internals/restart.md.
func TestRestartCommands(t *testing.T) {
	s := startServing(t)
	text, err := os.ReadFile(filepath.Join(host.Repository(), "docs", "internals", "restart.md"))
	s.requireNoError(err)
	_, block, found := strings.Cut(string(text), "```console\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatal("docs/internals/restart.md has no commands")
	}
	for line := range strings.Lines(block) {
		command, is := strings.CutPrefix(strings.TrimSpace(line), "# ")
		if !is {
			t.Fatalf("no command: %q", line)
		}
		if out := s.run("sh", "-c", command); !strings.Contains(out, companion) && out != "NFileDescriptorStore=1\n" {
			t.Errorf("%s: %s", command, out)
		}
	}
}

func (s *service) awaitCompanionsEnd() {
	s.t.Helper()
	s.awaitPropertiesOf(companion, map[string]string{"ActiveState": "inactive", "Result": "success"})
}

// wantNothingLeft expects neither a table nor a listening socket.
func (s *service) wantNothingLeft() {
	s.t.Helper()
	if s.hasTable() {
		s.t.Errorf("the table is left:\n%s", s.run("nft", "list", "table", "inet", "http01-proxyd"))
	}
	if listening := s.run("ss", "-Hltn"); strings.TrimSpace(listening) != "" {
		s.t.Errorf("something listens:\n%s", listening)
	}
	s.wantClosed()
}

// TestStoredPorts changes the port while the service is stopped and while it runs. The
// descriptor store has only the current port.
func TestStoredPorts(t *testing.T) {
	s := startServing(t)

	s.configure(onPort9888)
	s.awaitPort(9888)
	s.systemctl("restart", unit)
	s.awaitPort(9888)
	s.challenge()
	s.awaitProperties(map[string]string{"NFileDescriptorStore": "1"})
	if listening := s.run("ss", "-Hltn"); strings.Count(listening, "\n") != 1 || !strings.Contains(listening, ":9888 ") {
		t.Errorf("listening:\n%s", listening)
	}
	for _, e := range s.journal() {
		if strings.Contains(e["MESSAGE"], "changed the listening socket") {
			t.Errorf("unexpected entry: %s", e["error"]+e["MESSAGE"])
		}
	}
	// In mode "" the service runs without table and sockets.
	s.configure("mode: \"\"\n")
	s.awaitStatus("Disabled: ")
	s.awaitProperties(map[string]string{"NFileDescriptorStore": "0"})
	s.wantNothingLeft()
}
