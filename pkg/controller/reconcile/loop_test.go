// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// fixture runs a loop in a synctest bubble: time passes only when all goroutines wait.
type fixture struct {
	fakeHost
	dir               string
	stateDir          string // the state directory
	loop              *Loop
	tracker           *tracker.Tracker
	addressEvents     chan struct{} // addresses
	fileEvents        chan struct{} // files
	held              []address.Address
	notifications     []string // to systemd, with their times
	heartbeats        []time.Duration
	verified          int
	differs           bool          // result of Verify, until Apply
	configured        config.Config // the last argument of OnConfig
	successorExpected bool          // another process will start
	inherited         Inherited     // from the previous process
	loopbackWant      []netip.Addr  // arguments of Ensure
	loopbackRetain    []netip.Addr
	loopbackErr       error // returned by Ensure
	log               *slog.Logger
	start             time.Time
	stop              func()
}

func (w *fixture) Snapshot() (held []address.Address, err error) {
	w.withLock(func() { held = w.held })
	return held, nil
}

// fakeAddresses and fakeFiles have methods of the same name.
type fakeAddresses struct{ *fixture }

func (a fakeAddresses) Changed() <-chan struct{} { return a.addressEvents }
func (fakeAddresses) TakeEventTime() time.Time   { return time.Now() }

// Links returns lo and two other links.
func (fakeAddresses) Links() ([]address.Link, error) {
	return []address.Link{{Index: 1, Name: "lo", Up: true}, {Index: 2, Name: "eth0", Up: true}, {Index: 3, Name: "eth1", Up: true}}, nil
}

// Ensure records its arguments. Package loopback has the tests with a kernel.
func (a fakeAddresses) Ensure(want, retain []netip.Addr) error {
	a.withLock(func() { a.loopbackWant, a.loopbackRetain = want, retain })
	return a.loopbackErr
}

type fakeFiles struct{ *fixture }

func (f fakeFiles) Changed() <-chan struct{} { return f.fileEvents }
func (fakeFiles) Watch(...string)            {}

func (w *fixture) Verify() (differs bool, err error) {
	w.withLock(func() {
		w.verified++
		differs, w.differs = w.differs, false
	})
	return differs, nil
}

func (w *fixture) Ready()     { w.recordNotification("ready") }
func (w *fixture) Reloading() { w.recordNotification("reloading") }

func (w *fixture) recordNotification(what string) {
	w.withLock(func() { w.notifications = append(w.notifications, time.Since(w.start).String()+" "+what) })
}

// withLock reads or changes state that the loop's goroutine uses.
func (w *fixture) withLock(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *fixture) verifyCount() (n int) {
	w.withLock(func() { n = w.verified })
	return n
}

func (w *fixture) takeNotifications() (sent []string) {
	w.withLock(func() { sent, w.notifications = w.notifications, nil })
	return sent
}

func (w *fixture) takeSteps() (steps []string) {
	w.withLock(func() { steps, w.steps = w.steps, nil })
	return steps
}

// startLoop starts the loop after prepare.
func startLoop(t *testing.T, prepare func(*fixture)) *fixture {
	t.Helper()
	w := &fixture{
		fakeHost: fakeHost{t: t}, dir: t.TempDir(), start: time.Now(),
		addressEvents: make(chan struct{}, 1), fileEvents: make(chan struct{}, 1),
	}
	w.stateDir = w.dir
	w.log = slog.New(slog.DiscardHandler)
	w.tracker = tracker.New("test", w.start, func(_, _ report.Condition) {})
	w.configure("vips: {api: [192.0.2.5], ingress: [192.0.2.6]}\n")
	prepare(w)
	w.loop = New(Dependencies{
		Log: w.log, Tracker: w.tracker, Addresses: fakeAddresses{w}, Files: fakeFiles{w},
		Table: w, Proxy: w, Notifier: w, Loopback: fakeAddresses{w},
		Heartbeat:         func() { w.withLock(func() { w.heartbeats = append(w.heartbeats, time.Since(w.start)) }) },
		Observed:          func(Observation) {},
		Save:              func(_, _ string, write func() error) { must(t, write()) },
		OnConfig:          func(c config.Config) { w.withLock(func() { w.configured = c }) },
		SuccessorExpected: func() bool { return w.successorExpected },
		Inherited:         w.inherited,
		ConfigPath:        filepath.Join(w.dir, "config.yaml"), StateDir: w.stateDir, ProcNetDir: w.dir, UnitsDir: w.dir, DefaultMicroShiftDir: filepath.Join(w.dir, "usual"),
		StaticPodDir: filepath.Join(w.dir, "manifests"), DisabledStaticPodDir: filepath.Join(w.dir, "disabled"),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.loop.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	synctest.Wait()
	return w
}

// write writes a file in the directory of the fixture.
func (w *fixture) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	must(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(w.t, os.WriteFile(path, []byte(text), 0o600))
}

func (w *fixture) configure(text string) {
	w.t.Helper()
	w.write("config.yaml", text)
}

// microShift configures a host without keepalived, with a directory of MicroShift and more
// keys of microshift.
func (w *fixture) microShift(dir, more string) {
	w.t.Helper()
	w.configure("vips: {keepalivedConfig: " + filepath.Join(w.dir, "none") + "}\nmicroshift: {directory: " + filepath.Join(w.dir, dir) + more + "}\n")
}

// keepalived configures a host with keepalived and writes keepalived.conf.
func (w *fixture) keepalived(text string) {
	w.t.Helper()
	w.configure("vips: {keepalivedConfig: " + filepath.Join(w.dir, "keepalived.conf") + "}\n")
	w.write("keepalived.conf", text)
}

// defaultRoute is a route table of the kernel with a default route on eth0.
const defaultRoute = "Iface\tDestination\tGateway\neth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"

// parsePrefixes parses addresses such as "192.0.2.9/24 eth0", on the links of Links.
func parsePrefixes(texts ...string) (all []address.Address) {
	index := map[string]uint32{"lo": 1, "eth0": 2, "eth1": 3}
	for _, text := range texts {
		prefix, link, _ := strings.Cut(text, " ")
		p := netip.MustParsePrefix(prefix)
		all = append(all, address.Address{IP: p.Addr(), Bits: p.Bits(), Link: index[link]})
	}
	return all
}

// expect checks the reason and a part of the message, and returns the condition.
func (w *fixture) expect(when string, reason report.Reason, part string) report.Condition {
	w.t.Helper()
	c := w.tracker.Report(report.Table{}).Condition()
	if c.Reason != reason || !strings.Contains(c.Message, part) {
		w.t.Errorf("%s: %s: %s", when, c.Reason, c.Message)
	}
	return c
}

// must ends the test after an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// advance waits, with an address event in each step.
func (w *fixture) advance(d, step time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		<-time.After(step)
		select {
		case w.addressEvents <- struct{}{}:
		default:
		}
		synctest.Wait()
	}
}

func idle(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *fixture) reason() report.Reason {
	return w.tracker.Report(report.Table{}).Condition().Reason
}

const twoInstances = `vrrp_instance c_API_0 {
    virtual_ipaddress {
        192.0.2.5/32
    }
}
vrrp_instance c_INGRESS_0 {
    virtual_ipaddress {
        192.0.2.6/32
    }
}
`

func TestAddressEventsDoNotDelayScheduledWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startLoop(t, func(w *fixture) { w.keepalived(twoInstances) })
		defer w.stop()
		w.expect("at the start", report.Standby, "")
		w.write("keepalived.conf", "global_defs {\n}\n")
		w.fileEvents <- struct{}{}
		w.advance(1500*time.Millisecond, 50*time.Millisecond)
		w.expect("before the loss has settled", report.Standby, "")
		w.advance(3*time.Second, 50*time.Millisecond)
		w.expect("after the second read of keepalived.conf, between address events", report.NoVIPs, "")
		verified := w.verifyCount()
		w.advance(95*time.Second, 10*time.Second)
		if w.verifyCount() != verified {
			t.Errorf("a table that does not exist is verified")
		}
	})
}

func TestResyncEvery30Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startLoop(t, func(*fixture) {})
		defer w.stop()
		w.advance(95*time.Second, 7*time.Second)
		if n := w.verifyCount(); n != 3 {
			t.Errorf("the table was verified %d times in 95 s", n)
		}
		// A change without an event: inotify has lost it.
		w.configure(`mode: ""`)
		w.advance(31*time.Second, 7*time.Second)
		w.expect("without an event", report.Disabled, "")
	})
}

func TestFailuresAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startLoop(t, func(w *fixture) { w.refuses = errors.New("no") })
		defer w.stop()
		if sent := w.takeNotifications(); len(sent) != 0 {
			t.Errorf("ready although the table cannot be applied: %v", sent)
		}
		idle(20 * time.Second)
		tries := strings.Count(strings.Join(w.takeSteps(), "\n"), "apply fails")
		if tries < 7 || tries > 12 {
			t.Errorf("%d attempts in 20 s", tries)
		}
		if diff := cmp.Diff([]string{"2s ready"}, w.takeNotifications()); diff != "" {
			t.Errorf("no notification after the start timeout (-want +got):\n%s", diff)
		}
		w.withLock(func() { w.refuses = nil })
		idle(maxRetryDelay)
		w.expect("after the cause has gone", report.Standby, "")
		w.takeSteps()
		idle(20 * time.Second)
		if more := w.takeSteps(); len(more) > 1 { // the complete pass falls in between
			t.Errorf("a success is retried: %v", more)
		}
	})
}

func TestAddressEventsDoNotMultiplyRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startLoop(t, func(w *fixture) { w.refuses = errors.New("no") })
		defer w.stop()
		w.advance(10*time.Second, 10*time.Millisecond)
		if tries := strings.Count(strings.Join(w.takeSteps(), "\n"), "apply fails"); tries < 5 || tries > 9 {
			t.Errorf("%d attempts in 10 s of address events", tries)
		}
		// A changed plan is applied at once.
		w.withLock(func() { w.held = []address.Address{{IP: netip.MustParseAddr("192.0.2.5")}} })
		w.advance(10*time.Millisecond, 10*time.Millisecond)
		if tries := strings.Count(strings.Join(w.takeSteps(), "\n"), "apply fails"); tries != 1 {
			t.Errorf("%d attempts for a VIP that has arrived", tries)
		}
	})
}

func TestEmptyFileAtStartKeepsLastAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startLoop(t, func(w *fixture) {
			w.write("last-accepted.yaml", `mode: ""`)
			w.configure("")
		})
		defer w.stop()
		w.expect("at the start", report.Disabled, "")
		idle(settled.LossDelay)
		w.expect("after the empty file has settled", report.NotRequired, "")
	})
}

func TestReadyImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startLoop(t, func(*fixture) {})
		if diff := cmp.Diff([]string{"0s ready"}, w.takeNotifications()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.stop()
		if last := w.steps[len(w.steps)-1]; last != "remove" || w.table != nil {
			t.Errorf("after the end the table is %v, the last step is %q", w.table, last)
		}
	})
}

func TestHandsOverToNextProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startLoop(t, func(w *fixture) { w.successorExpected = true })
		w.stop()
		if last := w.steps[len(w.steps)-2:]; !slices.Equal(last, []string{"suspend", "leave"}) || w.table == nil {
			t.Errorf("after the end the table is %v, the last steps are %q", w.table, last)
		}
	})
}

// TestInheritedStateKeptUntilObserved: listener and table of the previous process stay until
// the first complete observation, but not longer than startTimeout.
func TestInheritedStateKeptUntilObserved(t *testing.T) {
	for name, corrected := range map[string]bool{"a file that is being written": true, "a file that stays broken": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := startLoop(t, func(w *fixture) {
					w.keepalived("vrrp_instance a {\n")
					w.inherited, w.listen = Inherited{Port: 8888, Table: true}, []uint16{8888}
					w.held = []address.Address{{IP: netip.MustParseAddr("192.0.2.5")}}
				})
				defer w.stop()
				idle(time.Second)
				if steps := w.takeSteps(); len(steps) > 0 || w.reason() != report.Starting {
					t.Errorf("%v, %q", w.reason(), steps)
				}
				want := "apply 8888 [], close, remove"
				if corrected {
					want = "apply 8888 [192.0.2.5]"
					w.write("keepalived.conf", twoInstances)
				}
				idle(2 * time.Second)
				if diff := cmp.Diff(want, strings.Join(w.takeSteps(), ", ")); diff != "" {
					t.Errorf("steps (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestConfigurationSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = "vips: {api: [192.0.2.5], ingress: [192.0.2.6]}\nmode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\n"
		w := startLoop(t, func(*fixture) {})
		defer w.stop()
		w.takeNotifications()
		port := func(want uint16, when string) {
			t.Helper()
			w.withLock(func() {
				if len(w.listen) != 1 || w.listen[0] != want {
					t.Errorf("%s: listening on %v, want %d", when, w.listen, want)
				}
			})
		}
		signal := func() {
			w.fileEvents <- struct{}{}
			synctest.Wait()
		}
		w.configure("")
		signal()
		idle(time.Second)
		w.expect("a second after the file was emptied", report.Standby, "")
		w.configure(other[:len(other)-20])
		signal()
		idle(50 * time.Millisecond)
		w.configure(other)
		signal()
		idle(50 * time.Millisecond)
		port(8888, "before the text has settled")
		idle(60 * time.Millisecond)
		port(9888, "after it has")
		if sent := w.takeNotifications(); len(sent) != 2 || !strings.HasSuffix(sent[0], " reloading") || !strings.HasSuffix(sent[1], " ready") {
			t.Errorf("the notifications are %v", sent)
		}
		w.configure("vips: {api: [192.0.2.5], ingress: [192.0.2.6]}\n")
		w.loop.Reload()
		synctest.Wait()
		port(8888, "after a requested reload")
		w.configure("")
		signal()
		idle(2 * time.Second)
		w.expect("after an empty file has stayed", report.NotRequired, "")
	})
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startLoop(t, func(*fixture) {})
		idle(2 * time.Minute)
		w.stop()
		for i := 1; i < len(w.heartbeats); i++ {
			if gap := w.heartbeats[i] - w.heartbeats[i-1]; gap > heartbeatInterval {
				t.Errorf("no heartbeat for %v", gap)
			}
		}
		if n := len(w.heartbeats); n < 24 {
			t.Errorf("%d heartbeats in two minutes", n)
		}
	})
}
