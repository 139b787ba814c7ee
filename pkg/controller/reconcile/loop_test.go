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

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// world is what a loop lives in, inside a synctest bubble: time passes only
// when everybody waits.
type world struct {
	host
	dir        string
	state      string // the state directory
	loop       *Loop
	board      *report.Board
	events     chan struct{} // addresses
	hints      chan struct{} // files
	held       []address.Address
	told       []string // what the manager was told, and when
	beats      []time.Duration
	verified   int
	differs    bool          // what Verify finds, until Apply
	configured config.Config // the last that Configured got
	followed   bool          // another process follows
	left       Left          // by a former one
	kept       []netip.Addr  // what lo is to have
	stays      []netip.Addr  // what lo is not to lose
	keeps      error         // what Keep says
	log        *slog.Logger
	start      time.Time
	stop       func()
}

func (w *world) Snapshot() (held []address.Address, err error) {
	w.look(func() { held = w.held })
	return held, nil
}

// addresses and hinted are the two sides that share method names.
type addresses struct{ *world }

func (a addresses) Changed() <-chan struct{} { return a.events }

// Links are those of a host that has its addresses on eth0, as a rule.
func (addresses) Links() ([]address.Link, error) {
	return []address.Link{{Index: 1, Name: "lo", Up: true}, {Index: 2, Name: "eth0", Up: true}, {Index: 3, Name: "eth1", Up: true}}, nil
}

// Keep stands in for the kernel's lo: real ones are in package advertise.
func (a addresses) Keep(want, stay []netip.Addr) error {
	a.look(func() { a.kept, a.stays = want, stay })
	return a.keeps
}

type hinted struct{ *world }

func (f hinted) Changed() <-chan struct{} { return f.hints }
func (hinted) Watch(...string)            {}

func (w *world) Verify() (differs bool, err error) {
	w.look(func() {
		w.verified++
		differs, w.differs = w.differs, false
	})
	return differs, nil
}

func (w *world) Ready()     { w.tell("ready") }
func (w *world) Reloading() { w.tell("reloading") }

func (w *world) tell(what string) {
	w.look(func() { w.told = append(w.told, time.Since(w.start).String()+" "+what) })
}

// look reads or changes what the loop's goroutine works with.
func (w *world) look(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) timesVerified() (n int) {
	w.look(func() { n = w.verified })
	return n
}

func (w *world) manager() (told []string) {
	w.look(func() { told, w.told = w.told, nil })
	return told
}

func (w *world) done() (steps []string) {
	w.look(func() { steps, w.steps = w.steps, nil })
	return steps
}

// run starts the loop; prepare may change the world before.
func run(t *testing.T, prepare func(*world)) *world {
	t.Helper()
	w := &world{
		host: host{t: t}, dir: t.TempDir(), start: time.Now(),
		events: make(chan struct{}, 1), hints: make(chan struct{}, 1),
	}
	w.state = w.dir
	w.log = slog.New(slog.DiscardHandler)
	w.board = report.NewBoard("test", w.start, func(_, _ report.Condition) {})
	w.configure("vips: {api: [192.0.2.5], ingress: [192.0.2.6]}\n")
	prepare(w)
	w.loop = New(Parts{
		Log: w.log, Board: w.board, Addresses: addresses{w}, Files: hinted{w},
		Table: w, Door: w, Announcer: w, Internal: addresses{w},
		Beat:       func() { w.look(func() { w.beats = append(w.beats, time.Since(w.start)) }) },
		Moved:      func() {},
		Configured: func(c config.Config) { w.look(func() { w.configured = c }) },
		Followed:   func() bool { return w.followed },
		Left:       w.left,
		ConfigPath: filepath.Join(w.dir, "config.yaml"), StateDir: w.state, Routes: w.dir, Units: w.dir, MicroShift: filepath.Join(w.dir, "usual"),
		Manifests: filepath.Join(w.dir, "manifests"), DisabledManifests: filepath.Join(w.dir, "disabled"),
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

// write writes a file of the world's directory, and makes its folder.
func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	must(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(w.t, os.WriteFile(path, []byte(text), 0o600))
}

func (w *world) configure(text string) {
	w.t.Helper()
	w.write("config.yaml", text)
}

// microShift configures a host without keepalived, with MicroShift's directory and
// what follows it.
func (w *world) microShift(dir, more string) {
	w.t.Helper()
	w.configure("vips: {keepalivedConfig: " + filepath.Join(w.dir, "none") + "}\nmicroshift: {directory: " + filepath.Join(w.dir, dir) + more + "}\n")
}

// keepalived configures a host with keepalived, and writes its configuration.
func (w *world) keepalived(text string) {
	w.t.Helper()
	w.configure("vips: {keepalivedConfig: " + filepath.Join(w.dir, "keepalived.conf") + "}\n")
	w.write("keepalived.conf", text)
}

// defaultRoute is the kernel's table of routes, with one by eth0.
const defaultRoute = "Iface\tDestination\tGateway\neth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"

// prefixes are addresses like "192.0.2.9/24 eth0", on the links of addresses.Links.
func prefixes(texts ...string) (all []address.Address) {
	index := map[string]uint32{"lo": 1, "eth0": 2, "eth1": 3}
	for _, text := range texts {
		prefix, link, _ := strings.Cut(text, " ")
		p := netip.MustParsePrefix(prefix)
		all = append(all, address.Address{IP: p.Addr(), Bits: p.Bits(), Link: index[link]})
	}
	return all
}

// expect checks the reason and a part of the message, and returns the condition.
func (w *world) expect(when string, reason report.Reason, part string) report.Condition {
	w.t.Helper()
	c := w.board.Report(report.Table{}).Condition()
	if c.Reason != reason || !strings.Contains(c.Message, part) {
		w.t.Errorf("%s: %s: %s", when, c.Reason, c.Message)
	}
	return c
}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pass lets time go by, with an address event in each step of it.
func (w *world) pass(d, step time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		<-time.After(step)
		select {
		case w.events <- struct{}{}:
		default:
		}
		synctest.Wait()
	}
}

func quiet(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *world) reason() report.Reason {
	return w.board.Report(report.Table{}).Condition().Reason
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

func TestAddressEventsDoNotPutOffWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, func(w *world) { w.keepalived(twoInstances) })
		defer w.stop()
		w.expect("at the start", report.Standby, "")
		w.write("keepalived.conf", "global_defs {\n}\n")
		w.hints <- struct{}{}
		w.pass(1500*time.Millisecond, 50*time.Millisecond)
		w.expect("before the loss has settled", report.Standby, "")
		w.pass(3*time.Second, 50*time.Millisecond)
		w.expect("at the second look at keepalived.conf, amid address events", report.NoVIPs, "")
		verified := w.timesVerified()
		w.pass(95*time.Second, 10*time.Second)
		if w.timesVerified() != verified {
			t.Errorf("a table is verified where there is none")
		}
	})
}

func TestEverythingIsLookedAtEvery30Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, func(*world) {})
		defer w.stop()
		w.pass(95*time.Second, 7*time.Second)
		if n := w.timesVerified(); n != 3 {
			t.Errorf("the table was verified %d times in 95 s", n)
		}
		// A change without any hint: inotify has lost it.
		w.configure(`mode: ""`)
		w.pass(31*time.Second, 7*time.Second)
		w.expect("without a hint", report.Disabled, "")
	})
}

func TestFailuresAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, func(w *world) { w.refuses = errors.New("no") })
		defer w.stop()
		if told := w.manager(); len(told) != 0 {
			t.Errorf("ready although nothing works: %v", told)
		}
		quiet(20 * time.Second)
		tries := strings.Count(strings.Join(w.done(), "\n"), "apply fails")
		if tries < 7 || tries > 12 {
			t.Errorf("%d tries in 20 s", tries)
		}
		if diff := cmp.Diff([]string{"2s ready"}, w.manager()); diff != "" {
			t.Errorf("a start that does not work counts as over after the grace (-want +got):\n%s", diff)
		}
		w.look(func() { w.refuses = nil })
		quiet(lastRetry)
		w.expect("after the cause has gone", report.Standby, "")
		w.done()
		quiet(20 * time.Second)
		if more := w.done(); len(more) > 1 { // the look at everything falls in between
			t.Errorf("success is retried: %v", more)
		}
	})
}

func TestAddressEventsDoNotMultiplyRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, func(w *world) { w.refuses = errors.New("no") })
		defer w.stop()
		w.pass(10*time.Second, 10*time.Millisecond)
		if tries := strings.Count(strings.Join(w.done(), "\n"), "apply fails"); tries < 5 || tries > 9 {
			t.Errorf("%d tries in 10 s of address events", tries)
		}
		// What has changed is tried at once.
		w.look(func() { w.held = []address.Address{{IP: netip.MustParseAddr("192.0.2.5")}} })
		w.pass(10*time.Millisecond, 10*time.Millisecond)
		if tries := strings.Count(strings.Join(w.done(), "\n"), "apply fails"); tries != 1 {
			t.Errorf("%d tries for a VIP that has come", tries)
		}
	})
}

func TestAnEmptyFileAtTheStartDoesNotUndoTheLastConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, func(w *world) {
			w.write("last-accepted.yaml", `mode: ""`)
			w.configure("")
		})
		defer w.stop()
		w.expect("at the start", report.Disabled, "")
		quiet(settledEmpty)
		w.expect("after the empty file has settled", report.NotRequired, "")
	})
}

func TestReadyAtOnceWhenItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, func(*world) {})
		if diff := cmp.Diff([]string{"0s ready"}, w.manager()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.stop()
		if last := w.steps[len(w.steps)-1]; last != "remove" || w.table != nil {
			t.Errorf("the end leaves %v, the last step is %q", w.table, last)
		}
	})
}

func TestLeavesDoorAndTableToTheNextProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, func(w *world) { w.followed = true })
		w.stop()
		if last := w.steps[len(w.steps)-2:]; !slices.Equal(last, []string{"suspend", "leave"}) || w.table == nil {
			t.Errorf("the end leaves the table %v, the last steps are %q", w.table, last)
		}
	})
}

// What the last run has left stays as it is while this one has not seen all that
// it decides by, and no longer than a start may take.
func TestLeftIsKeptUntilTheHostWasSeen(t *testing.T) {
	for name, mended := range map[string]bool{"a file that is being written": true, "a file that stays broken": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := run(t, func(w *world) {
					w.keepalived("vrrp_instance a {\n")
					w.left, w.listen = Left{Port: 8888, Table: true}, []uint16{8888}
					w.held = []address.Address{{IP: netip.MustParseAddr("192.0.2.5")}}
				})
				defer w.stop()
				quiet(time.Second)
				if steps := w.done(); len(steps) > 0 || w.reason() != report.Starting {
					t.Errorf("%v, %q", w.reason(), steps)
				}
				want := "apply 8888 [], close, remove"
				if mended {
					want = "apply 8888 [192.0.2.5]"
					w.write("keepalived.conf", twoInstances)
				}
				quiet(2 * time.Second)
				if diff := cmp.Diff(want, strings.Join(w.done(), ", ")); diff != "" {
					t.Errorf("steps (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestConfigurationSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = "vips: {api: [192.0.2.5], ingress: [192.0.2.6]}\nmode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\n"
		w := run(t, func(*world) {})
		defer w.stop()
		w.manager()
		port := func(want uint16, when string) {
			t.Helper()
			w.look(func() {
				if len(w.listen) != 1 || w.listen[0] != want {
					t.Errorf("%s: listening on %v, want %d", when, w.listen, want)
				}
			})
		}
		hint := func() {
			w.hints <- struct{}{}
			synctest.Wait()
		}
		w.configure("")
		hint()
		quiet(time.Second)
		w.expect("a second after the file was emptied", report.Standby, "")
		w.configure(other[:len(other)-20])
		hint()
		quiet(50 * time.Millisecond)
		w.configure(other)
		hint()
		quiet(50 * time.Millisecond)
		port(8888, "before the text has settled")
		quiet(60 * time.Millisecond)
		port(9888, "after it has")
		if told := w.manager(); len(told) != 2 || !strings.HasSuffix(told[0], " reloading") || !strings.HasSuffix(told[1], " ready") {
			t.Errorf("the manager was told %v", told)
		}
		w.configure("vips: {api: [192.0.2.5], ingress: [192.0.2.6]}\n")
		w.loop.Reload()
		synctest.Wait()
		port(8888, "when the admin asks for a reload")
		w.configure("")
		hint()
		quiet(2 * time.Second)
		w.expect("after an empty file has stayed", report.NotRequired, "")
	})
}

func TestTheLoopBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, func(*world) {})
		quiet(2 * time.Minute)
		w.stop()
		for i := 1; i < len(w.beats); i++ {
			if gap := w.beats[i] - w.beats[i-1]; gap > heartbeat {
				t.Errorf("no beat for %v", gap)
			}
		}
		if n := len(w.beats); n < 24 {
			t.Errorf("%d beats in two minutes", n)
		}
	})
}
