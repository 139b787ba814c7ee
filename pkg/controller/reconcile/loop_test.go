// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/changelog"
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
	reload            chan os.Signal
	held              []address.Address
	defaultLinks      []uint32
	notifications     []string // to systemd, with their times
	heartbeats        []time.Duration
	verified          int
	differs           bool // result of Verify, until Apply
	observed          Observation
	successorExpected bool          // another process will start
	queried           chan struct{} // closed when that is known; nil: immediately
	inherited         Inherited     // from the previous process
	watched           func()        // called by each read of the files, if set
	loopbackWant      []netip.Addr  // arguments of Ensure
	loopbackRetain    []netip.Addr
	loopbackErr       error // returned by Ensure
	log               *slog.Logger
	start             time.Time
	stop              func()
}

func (f *fixture) Snapshot() (held []address.Address, err error) {
	f.withLock(func() { held = f.held })
	return held, nil
}

// fakeAddresses and fakeFiles have methods of the same name.
type fakeAddresses struct{ *fixture }

func (a fakeAddresses) Changed() <-chan struct{} { return a.addressEvents }
func (fakeAddresses) TakeEventTime() time.Time   { return time.Now() }

// Links returns lo and two other links.
func (fakeAddresses) Links() ([]address.Link, error) {
	return []address.Link{
		{Index: 1, Name: "lo", Up: true},
		{Index: 2, Name: "eth0", Up: true},
		{Index: 3, Name: "eth1", Up: true},
	}, nil
}

// Ensure records its arguments. Package loopback has the tests with a kernel.
func (a fakeAddresses) Ensure(want, retain []netip.Addr) error {
	a.withLock(func() { a.loopbackWant, a.loopbackRetain = want, retain })
	return a.loopbackErr
}

type fakeFiles struct{ *fixture }

func (f fakeFiles) Changed() <-chan struct{} { return f.fileEvents }

// Watch is called by the goroutine that reads.
func (f fakeFiles) Watch(...string) {
	if f.watched != nil {
		f.watched()
	}
}

func (f *fixture) Verify() (differs bool, err error) {
	f.withLock(func() {
		f.verified++
		differs, f.differs = f.differs, false
	})
	return differs, nil
}

func (f *fixture) Ready()     { f.recordNotification("ready") }
func (f *fixture) Reloading() { f.recordNotification("reloading") }

func (f *fixture) recordNotification(what string) {
	f.withLock(func() { f.notifications = append(f.notifications, time.Since(f.start).String()+" "+what) })
}

// withLock reads or changes state that the loop's goroutine uses.
func (f *fixture) withLock(use func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	use()
}

func (f *fixture) verifyCount() (n int) {
	f.withLock(func() { n = f.verified })
	return n
}

func (f *fixture) takeNotifications() (sent []string) {
	f.withLock(func() { sent, f.notifications = f.notifications, nil })
	return sent
}

func (f *fixture) takeSteps() (steps []string) {
	f.withLock(func() { steps, f.steps = f.steps, nil })
	return steps
}

// startLoop starts the loop after prepare.
func startLoop(t *testing.T, prepare func(*fixture)) *fixture {
	t.Helper()
	f := &fixture{
		fakeHost: fakeHost{t: t}, dir: t.TempDir(), start: time.Now(),
		addressEvents: make(chan struct{}, 1), fileEvents: make(chan struct{}, 1), reload: make(chan os.Signal, 1),
	}
	f.stateDir = f.dir
	f.log = slog.New(slog.DiscardHandler)
	f.tracker = tracker.New("test", f.start, func(_, _ report.Condition) {})
	f.configure("vips: {api: [192.0.2.5], ingress: [192.0.2.6]}\n")
	prepare(f)
	f.loop = New(Dependencies{
		Log: f.log, RecordChange: func(e changelog.Entry) { f.log.LogAttrs(t.Context(), e.Level, e.Message, e.Attrs...) },
		Tracker: f.tracker, Addresses: fakeAddresses{f}, Files: fakeFiles{f},
		Table: f, Proxy: f, Notifier: f, Loopback: fakeAddresses{f},
		Heartbeat: func() { f.withLock(func() { f.heartbeats = append(f.heartbeats, time.Since(f.start)) }) },
		Observed:  func(o Observation) { f.withLock(func() { f.observed = o }) },
		Save:      func(_, _ string, write func() error) { must(t, write()) },
		SuccessorExpected: func() bool {
			if f.queried != nil {
				<-f.queried
			}
			return f.successorExpected
		},
		Inherited: f.inherited, Reload: f.reload,
		HostPaths: config.HostPaths{
			ConfigPath: filepath.Join(f.dir, "config.yaml"), StateDir: f.stateDir, APIServerURLFile: filepath.Join(f.dir, "url.env"),
			ManifestDir: filepath.Join(f.dir, "manifests"), DisabledManifestDir: filepath.Join(f.dir, "disabled"),
		},
		UnitsDir: f.dir,
		DefaultLinks: func() (v4, v6 []uint32, err error) {
			f.withLock(func() { v4 = f.defaultLinks })
			return v4, nil, nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.loop.Run(ctx) }()
	f.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	synctest.Wait()
	return f
}

// write writes a file in the directory of the fixture.
func (f *fixture) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.dir, filepath.FromSlash(name))
	must(f.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(f.t, os.WriteFile(path, []byte(text), 0o600))
}

func (f *fixture) configure(text string) {
	f.t.Helper()
	f.write("config.yaml", text)
}

// microShift configures a host without keepalived, with a directory of MicroShift and more
// keys of microshift.
func (f *fixture) microShift(dir, more string) {
	f.t.Helper()
	f.configure("vips: {keepalivedConfig: " + filepath.Join(f.dir, "none") + "}\nmicroshift: {directory: " +
		filepath.Join(f.dir, dir) + more + "}\n")
}

// keepalived configures a host with keepalived and writes keepalived.conf.
func (f *fixture) keepalived(text string) {
	f.t.Helper()
	f.configure("vips: {keepalivedConfig: " + filepath.Join(f.dir, "keepalived.conf") + "}\n")
	f.write("keepalived.conf", text)
}

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
func (f *fixture) expect(when string, reason report.Reason, part string) report.Condition {
	f.t.Helper()
	c := f.tracker.Report(report.Table{}).Condition()
	if c.Reason != reason || !strings.Contains(c.Message, part) {
		f.t.Errorf("%s: %s: %s", when, c.Reason, c.Message)
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
func (f *fixture) advance(d, step time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		<-time.After(step)
		select {
		case f.addressEvents <- struct{}{}:
		default:
		}
		synctest.Wait()
	}
}

func idle(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (f *fixture) reason() report.Reason {
	return f.tracker.Report(report.Table{}).Condition().Reason
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
		f := startLoop(t, func(f *fixture) { f.keepalived(twoInstances) })
		defer f.stop()
		f.expect("at the start", report.Standby, "")
		f.write("keepalived.conf", "global_defs {\n}\n")
		f.fileEvents <- struct{}{}
		f.advance(1500*time.Millisecond, 50*time.Millisecond)
		f.expect("before the loss has settled", report.Standby, "")
		f.advance(3*time.Second, 50*time.Millisecond)
		f.expect("after the second read of keepalived.conf, between address events", report.NoVIPs, "")
		verified := f.verifyCount()
		f.advance(95*time.Second, 10*time.Second)
		if f.verifyCount() != verified {
			t.Errorf("a table that does not exist is verified")
		}
	})
}

// TestAddressEventDuringRead: a read that hangs delays neither the rule for a VIP that arrives nor a
// heartbeat. The state reports it until the read returns.
func TestAddressEventDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var hangs atomic.Bool
		f := startLoop(t, func(f *fixture) {
			f.watched = func() {
				if hangs.Load() {
					<-hang
				}
			}
		})
		defer f.stop()
		f.takeSteps()
		hangs.Store(true)
		f.fileEvents <- struct{}{}
		synctest.Wait()
		f.withLock(func() { f.held = parsePrefixes("192.0.2.5/32 eth0") })
		f.addressEvents <- struct{}{}
		synctest.Wait()
		if diff := cmp.Diff([]string{"apply 8888 [192.0.2.5]"}, f.takeSteps()); diff != "" {
			t.Errorf("while the read hangs (-want +got):\n%s", diff)
		}
		idle(stallTimeout)
		f.expect("a read that hangs", report.InvalidConfig, "has not finished after 10s")
		close(hang)
		synctest.Wait()
		f.expect("a read that has returned", report.Serving, "")
		f.checkHeartbeats()
	})
}

// TestFirstReadHangs: what the previous process left stays, and systemd is notified after startTimeout.
func TestFirstReadHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		f := startLoop(t, func(f *fixture) {
			f.watched = func() { <-hang }
			f.inherited, f.listen = Inherited{Port: 8888, Table: true}, []uint16{8888}
			f.held = parsePrefixes("192.0.2.5/32 eth0")
		})
		defer f.stop()
		f.addressEvents <- struct{}{}
		idle(stallTimeout - time.Second)
		if steps := f.takeSteps(); len(steps) > 0 {
			t.Errorf("before the first read: %q", steps)
		}
		if diff := cmp.Diff([]string{"2s ready"}, f.takeNotifications()); diff != "" {
			t.Errorf("notifications (-want +got):\n%s", diff)
		}
		idle(2 * time.Second)
		f.expect("a first read that stalls", report.InvalidConfig, "stays as the previous process left it")
		close(hang)
		synctest.Wait()
		f.expect("after the first read", report.Serving, "")
		if diff := cmp.Diff([]string{"apply 8888 [192.0.2.5]"}, f.takeSteps()); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
		if more := f.takeNotifications(); len(more) > 0 {
			t.Errorf("the first read is a reload: %q", more)
		}
		f.checkHeartbeats()
	})
}

func TestResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(*fixture) {})
		defer f.stop()
		f.advance(3*resyncInterval+5*time.Second, 7*time.Second)
		if n := f.verifyCount(); n != 3 {
			t.Errorf("the table was verified %d times in three intervals", n)
		}
		// A change without an event: inotify has lost it.
		f.configure(`mode: ""`)
		f.advance(resyncInterval+time.Second, 7*time.Second)
		f.expect("without an event", report.Disabled, "")
	})
}

func TestFailuresAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(f *fixture) { f.refuses = errors.New("no") })
		defer f.stop()
		if sent := f.takeNotifications(); len(sent) != 0 {
			t.Errorf("ready although the table cannot be applied: %v", sent)
		}
		idle(20 * time.Second)
		tries := strings.Count(strings.Join(f.takeSteps(), "\n"), "apply fails")
		if tries < 7 || tries > 12 {
			t.Errorf("%d attempts in 20 s", tries)
		}
		if diff := cmp.Diff([]string{"2s ready"}, f.takeNotifications()); diff != "" {
			t.Errorf("no notification after the start timeout (-want +got):\n%s", diff)
		}
		f.withLock(func() { f.refuses = nil })
		idle(maxRetryDelay)
		f.expect("after the cause has gone", report.Standby, "")
		f.takeSteps()
		idle(20 * time.Second)
		if more := f.takeSteps(); len(more) > 2 { // the comparison of the table and a read fall in between
			t.Errorf("a success is retried: %v", more)
		}
	})
}

func TestAddressEventsDoNotMultiplyRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(f *fixture) { f.refuses = errors.New("no") })
		defer f.stop()
		f.advance(10*time.Second, 10*time.Millisecond)
		if tries := strings.Count(strings.Join(f.takeSteps(), "\n"), "apply fails"); tries < 5 || tries > 9 {
			t.Errorf("%d attempts in 10 s of address events", tries)
		}
		// A changed plan is applied at once.
		f.withLock(func() { f.held = []address.Address{{IP: netip.MustParseAddr("192.0.2.5")}} })
		f.advance(10*time.Millisecond, 10*time.Millisecond)
		if tries := strings.Count(strings.Join(f.takeSteps(), "\n"), "apply fails"); tries != 1 {
			t.Errorf("%d attempts for a VIP that has arrived", tries)
		}
	})
}

func TestEmptyFileAtStartKeepsLastAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(f *fixture) {
			f.write("last-accepted.yaml", `mode: ""`)
			f.configure("")
		})
		defer f.stop()
		f.expect("at the start", report.Disabled, "")
		idle(settled.LossDelay)
		f.expect("after the empty file has settled", report.NotRequired, "")
	})
}

func TestReadyImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(*fixture) {})
		if diff := cmp.Diff([]string{"0s ready"}, f.takeNotifications()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		f.stop()
		if last := f.steps[len(f.steps)-1]; last != "remove" || f.table != nil {
			t.Errorf("after the end the table is %v, the last step is %q", f.table, last)
		}
	})
}

func TestHandsOverToNextProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(f *fixture) { f.successorExpected = true })
		f.stop()
		want := []string{"listen 8888", "apply 8888 []", "suspend", "apply 8888 []", "leave"}
		if diff := cmp.Diff(want, f.takeSteps()); diff != "" || f.table == nil || !f.loop.HandedOver {
			t.Errorf("after the end the table is %v, handed over %t, steps (-want +got):\n%s", f.table, f.loop.HandedOver, diff)
		}
	})
}

// TestHandOverWithoutListener: there is nothing to keep.
func TestHandOverWithoutListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(f *fixture) {
			f.successorExpected = true
			f.configure(`mode: ""`)
		})
		f.stop()
		if len(f.steps) > 0 || f.loop.HandedOver {
			t.Errorf("handed over %t, steps %q", f.loop.HandedOver, f.steps)
		}
	})
}

// TestHandOverFails: a table that cannot be kept is not reported as kept.
func TestHandOverFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(f *fixture) { f.successorExpected = true })
		f.withLock(func() { f.refuses = errors.New("no") })
		f.stop()
		if f.loop.HandedOver {
			t.Error("handed over")
		}
	})
}

// TestFollowsVIPsDuringHandOver: a VIP that arrives while challenges are in flight is
// redirected before the next process starts, also if its event comes with the end of the
// last challenge.
func TestFollowsVIPsDuringHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inFlight := make(chan struct{})
		f := startLoop(t, func(f *fixture) {
			f.configure("vips: {api: [192.0.2.5, 192.0.2.7], ingress: [192.0.2.6]}\n")
			f.successorExpected, f.inFlight = true, inFlight
		})
		f.takeSteps()
		go func() {
			synctest.Wait()
			f.withLock(func() { f.held = parsePrefixes("192.0.2.5/32 eth0") })
			f.addressEvents <- struct{}{}
			synctest.Wait()
			f.withLock(func() {
				if diff := cmp.Diff(addrs("192.0.2.5"), f.table.VIPs(),
					cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
					t.Errorf("while a challenge is in flight (-want +got):\n%s", diff)
				}
				f.held = parsePrefixes("192.0.2.5/32 eth0", "192.0.2.7/32 eth0")
			})
			close(inFlight)
		}()
		f.stop()
		want := []string{"suspend", "apply 8888 [192.0.2.5]", "apply 8888 [192.0.2.5 192.0.2.7]", "leave"}
		if diff := cmp.Diff(want, f.takeSteps()); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
	})
}

// TestFollowsVIPsDuringQuery: a VIP that arrives while the service manager is queried for the
// reason of the stop is redirected, whatever the reason is. Heartbeats are sent meanwhile.
func TestFollowsVIPsDuringQuery(t *testing.T) {
	for name, tt := range map[string]struct {
		successorExpected bool
		after             []string
	}{
		"restart": {true, []string{"suspend", "apply 8888 [192.0.2.5]", "leave"}},
		"stop":    {false, []string{"apply 8888 []", "close", "remove"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startLoop(t, func(f *fixture) { f.successorExpected, f.queried = tt.successorExpected, make(chan struct{}) })
				f.takeSteps()
				go func() {
					synctest.Wait()
					f.withLock(func() { f.held = parsePrefixes("192.0.2.5/32 eth0") })
					f.addressEvents <- struct{}{}
					synctest.Wait()
					if diff := cmp.Diff([]string{"apply 8888 [192.0.2.5]"}, f.takeSteps()); diff != "" {
						t.Errorf("during the query (-want +got):\n%s", diff)
					}
					idle(2 * heartbeatInterval)
					close(f.queried)
				}()
				f.stop()
				if diff := cmp.Diff(tt.after, f.takeSteps()); diff != "" {
					t.Errorf("after the query (-want +got):\n%s", diff)
				}
				f.checkHeartbeats()
			})
		})
	}
}

// TestInheritedStateKeptUntilObserved: listener and table of the previous process stay until
// the first complete observation, but not longer than startTimeout.
func TestInheritedStateKeptUntilObserved(t *testing.T) {
	for name, corrected := range map[string]bool{"a file that is being written": true, "a file that stays broken": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startLoop(t, func(f *fixture) {
					f.keepalived("vrrp_instance a {\n")
					f.inherited, f.listen = Inherited{Port: 8888, Table: true}, []uint16{8888}
					f.held = []address.Address{{IP: netip.MustParseAddr("192.0.2.5")}}
				})
				defer f.stop()
				idle(time.Second)
				if steps := f.takeSteps(); len(steps) > 0 || f.reason() != report.Starting {
					t.Errorf("%v, %q", f.reason(), steps)
				}
				want := "apply 8888 [], close, remove"
				if corrected {
					want = "apply 8888 [192.0.2.5]"
					f.write("keepalived.conf", twoInstances)
					f.fileEvents <- struct{}{}
				}
				idle(2 * time.Second)
				if diff := cmp.Diff(want, strings.Join(f.takeSteps(), ", ")); diff != "" {
					t.Errorf("steps (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestConfigurationSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = "vips: {api: [192.0.2.5], ingress: [192.0.2.6]}\nmode: CustomDeployment\ncustomDeployment: " +
			"{internalPort: 9888}\n"
		f := startLoop(t, func(*fixture) {})
		defer f.stop()
		f.takeNotifications()
		port := func(want uint16, when string) {
			t.Helper()
			f.withLock(func() {
				if len(f.listen) != 1 || f.listen[0] != want {
					t.Errorf("%s: listening on %v, want %d", when, f.listen, want)
				}
			})
		}
		signal := func() {
			f.fileEvents <- struct{}{}
			synctest.Wait()
		}
		f.configure("")
		signal()
		idle(time.Second)
		f.expect("a second after the file was emptied", report.Standby, "")
		f.configure(other[:len(other)-20])
		signal()
		idle(50 * time.Millisecond)
		f.configure(other)
		signal()
		idle(50 * time.Millisecond)
		port(8888, "before the text has settled")
		idle(60 * time.Millisecond)
		port(9888, "after it has")
		if sent := f.takeNotifications(); len(sent) != 2 || !strings.HasSuffix(sent[0], " reloading") ||
			!strings.HasSuffix(sent[1], " ready") {
			t.Errorf("the notifications are %v", sent)
		}
		f.configure("vips: {api: [192.0.2.5], ingress: [192.0.2.6]}\n")
		f.reload <- syscall.SIGHUP
		synctest.Wait()
		port(8888, "after a requested reload")
		f.configure("")
		f.reload <- syscall.SIGHUP
		synctest.Wait()
		port(8888, "after a requested reload of a file that is truncated for writing")
		f.expect("after that reload", report.Standby, "")
		idle(2 * time.Second)
		f.expect("after an empty file has stayed", report.NotRequired, "")
	})
}

// checkHeartbeats checks that the loop, which ended, never waited without heartbeats.
func (f *fixture) checkHeartbeats() {
	f.t.Helper()
	for i := 1; i < len(f.heartbeats); i++ {
		if gap := f.heartbeats[i] - f.heartbeats[i-1]; gap > heartbeatInterval {
			f.t.Errorf("no heartbeat for %v", gap)
		}
	}
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(*fixture) {})
		idle(2 * time.Minute)
		f.stop()
		f.checkHeartbeats()
		if n := len(f.heartbeats); n < 12 {
			t.Errorf("%d heartbeats in two minutes", n)
		}
	})
}

// kubeVIPPod is a static pod of kube-vip for one VIP.
func kubeVIPPod(name, vip string) string {
	return "metadata: {name: " + name + "}\nspec: {containers: [{env: [{name: address, value: '" + vip +
		"'}, {name: vip_routingtable, value: 'true'}]}]}\n"
}

// TestKubeVIP: a host whose keepalived OpenShift has disabled gets its VIPs from kube-vip's
// static pods, as soon as these exist, and keeps them while a manifest is replaced.
func TestKubeVIP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(f *fixture) {
			f.configure("vips: {keepalivedConfig: " + filepath.Join(f.dir, "none") + "}\n")
			f.write("disabled/keepalived.yaml", "kind: Pod\n")
			f.held = []address.Address{{IP: netip.MustParseAddr("192.0.2.5")}}
		})
		defer f.stop()
		signal := func(wait time.Duration) {
			f.fileEvents <- struct{}{}
			synctest.Wait()
			idle(wait)
		}
		f.expect("without static pods", report.ExternalLoadBalancer, "")
		f.write("manifests/0010-kube-vip-api.yaml", kubeVIPPod("kube-vip-api", "192.0.2.5"))
		signal(0)
		f.expect("with the first one", report.NoVIPs, "API VIP 192.0.2.5 but no ingress VIP")
		f.write("manifests/0020-kube-vip-ingress.yaml", kubeVIPPod("kube-vip-ingress", "192.0.2.6"))
		signal(0)
		f.expect("with both", report.Serving, "holds 192.0.2.5")
		if v := f.tracker.Report(report.Table{}).VIPs; len(v) != 1 || v[0].Management != report.ManagementBGP {
			t.Errorf("VIPs %+v", v)
		}
		must(t, os.Remove(filepath.Join(f.dir, "manifests/0010-kube-vip-api.yaml")))
		signal(settled.LossDelay - time.Millisecond)
		f.expect("while one is replaced", report.Serving, "holds 192.0.2.5")
		f.write("manifests/0010-kube-vip-api.yaml", "spec: [")
		signal(10 * time.Second)
		f.expect("with a broken one", report.Serving, "holds 192.0.2.5 (read kube-vip's static pod ")
		f.write("manifests/0010-kube-vip-api.yaml", kubeVIPPod("kube-vip-api", "192.0.2.7"))
		signal(0)
		f.expect("with another VIP", report.Standby, "not on this host: 192.0.2.7")
		for _, name := range []string{"0010-kube-vip-api.yaml", "0020-kube-vip-ingress.yaml"} {
			must(t, os.Remove(filepath.Join(f.dir, "manifests", name)))
		}
		signal(settled.LossDelay)
		f.expect("without static pods again", report.ExternalLoadBalancer, "")
	})
}
