// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/suites/chaos/model"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/rig"
	"github.com/http01-proxyd/http01-proxyd/test/support/slowsync"
)

var (
	duration = flag.Duration("duration", time.Minute, "how long TestWalk draws sequences")
	seed     = flag.Uint64("seed", 1, "the seed of the first sequence; the next ones count up")
	hosts    = flag.Int("hosts", 4, "how many hosts run side by side")
	length   = flag.Int("length", 25, "number of faults in each sequence")
	rate     = flag.Int("rate", 60, "honest requests a second for each host")
	attacks  = flag.Int("attacks", 15, "connections of attackers a second for each host")
	only     = flag.Uint64("only", 1, "the seed of TestSeed")
	times    = flag.Int("times", 1, "how often TestSeed injects it")
)

// slack is added to each bound: half a second, and twice the usual time of a start. The
// bound is the service's, and other programs run on these processors. Sequences that
// needed it are counted.
func (*host) slack() time.Duration { return 500*time.Millisecond + 2*run.starts.usual() }

// run ends with a signal.
var run struct {
	context.Context
	binary string
	starts *starts
}

// starts are how long the service needed for the last starts, on all hosts. It is safe for
// concurrent use.
type starts struct {
	mu   sync.Mutex
	last []time.Duration
}

// lastStarts is enough that a single slow start does not matter.
const lastStarts = 15

func (s *starts) add(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = append(s.last[max(0, len(s.last)-lastStarts+1):], took)
}

// usual returns the median.
func (s *starts) usual() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.last) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(s.last))[len(s.last)/2]
}

func TestMain(m *testing.M) {
	slowsync.Main()
	flag.Parse()
	privateMounts()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	run.Context, run.starts = ctx, new(starts)
	if os.Geteuid() == 0 {
		binary, err := lab.Binary(ctx, os.Getenv("HTTP01_PROXYD"))
		if err == nil {
			_, err = lab.Clean(ctx)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		run.binary = binary
	}
	code := m.Run()
	stop()
	os.Exit(code)
}

// inPrivateMounts marks the process that has its own mount namespace.
const inPrivateMounts = "HTTP01_CHAOS_PRIVATE_MOUNTS"

// privateMounts continues in a mount namespace, so that the kernel removes the mounts of
// the state directories with this process, however it ends. Only the thread that executes
// the program again needs to be in it.
func privateMounts() {
	if os.Geteuid() != 0 || os.Getenv(inPrivateMounts) != "" {
		return
	}
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNS)
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if err == nil {
		err = unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), inPrivateMounts+"=1"))
	}
	fmt.Fprintln(os.Stderr, "continue in a private mount namespace:", err)
	os.Exit(1)
}

// result is the result of a sequence.
type result struct {
	faults      []model.Fault // that were injected
	effects     []bool        // whether each of them had one
	err         error         // the sequence could not be completed
	differences []string      // between the host and the model
	traffic     traffic
	log         string
}

// failure describes what is wrong, or is empty.
func (r result) failure() string {
	if r.err != nil {
		return r.err.Error()
	}
	return strings.Join(append(slices.Clone(r.differences), r.traffic.lost...), "\n")
}

// sequence injects a sequence, and compares the host with the model.
func (h *host) sequence(ctx context.Context, faults []model.Fault) result {
	var r result
	slow := func(f model.Fault) bool { return f.Kind == model.SlowDisk }
	r.err = h.begin(ctx, slices.ContainsFunc(faults, slow))
	if r.err == nil {
		r.effects, r.err = h.inject(ctx, faults)
	}
	r.faults = faults[:len(r.effects)]
	if r.err == nil {
		r.differences, r.err = h.agree(ctx)
	}
	if r.err == nil && len(r.differences) == 0 {
		r.differences, r.err = h.prove(ctx)
	}
	if r.err == nil {
		r.traffic = h.judge()
	} else { // its requests do not belong to the next sequence
		h.clients.Pause()
		h.clients.TakeFailures()
	}
	r.log = h.Tail()
	return r
}

// inject injects faults, with their pauses. It returns whether each that was injected had an effect.
func (h *host) inject(ctx context.Context, faults []model.Fault) (effects []bool, err error) {
	for _, f := range faults {
		begun := time.Now()
		done, err := h.act(ctx, f)
		effects = append(effects, done)
		if err != nil {
			return effects, fmt.Errorf("%v: %w", f, err)
		}
		h.record(f, done, begun)
		if f.Pause == 0 {
			continue
		}
		if err := sleep(ctx, f.Pause); err != nil {
			return effects, err
		}
	}
	return effects, nil
}

// TestWalk injects random sequences of faults for a while, on several hosts. A sequence
// after which the host differs from the model is printed as a test.
func TestWalk(t *testing.T) {
	w := &walk{T: t, end: time.Now().Add(*duration), next: *seed, byKind: make(map[model.Kind]int)}
	begin := time.Now()
	var workers sync.WaitGroup
	for range *hosts {
		workers.Go(func() { withHost(t, w.work) })
	}
	workers.Wait()
	w.report(time.Since(begin))
}

// withHost calls use with a new host.
func withHost(t *testing.T, use func(context.Context, *host)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	h, err := newHost(run, run.binary)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() {
		if err := h.close(context.WithoutCancel(run)); err != nil {
			t.Error(err)
		}
	}()
	use(run, h)
}

// walk is a run of TestWalk: the seeds, and what was found.
type walk struct {
	*testing.T
	end time.Time

	mu        sync.Mutex // not held during I/O
	next      uint64
	sequences int
	byKind    map[model.Kind]int // faults that had an effect
	traffic   traffic
	failed    []result
}

// take returns the next seed, or false when the time is over.
func (w *walk) take(ctx context.Context) (uint64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.next
	w.next++
	return s, time.Now().Before(w.end) && ctx.Err() == nil && len(w.failed) < maxFailures
}

// maxFailures ends a run.
const maxFailures = 3

// work runs sequences on one host.
func (w *walk) work(ctx context.Context, h *host) {
	for s, more := w.take(ctx); more; s, more = w.take(ctx) {
		r := h.sequence(ctx, draw(s, *length))
		if ctx.Err() != nil {
			return
		}
		w.add(r)
		switch {
		case r.err != nil:
			w.Errorf("seed %d: %v\nlog:\n%s", s, r.err, r.log)
			continue
		case r.failure() == "":
			continue
		}
		w.Errorf("seed %d: %s\n%s\nlog:\n%s", s, r.failure(), replay(s, r.faults), r.log)
	}
}

func (w *walk) add(r result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sequences++
	for i, f := range r.faults {
		if r.effects[i] {
			w.byKind[f.Kind]++
		}
	}
	w.traffic.add(r.traffic)
	if r.failure() != "" {
		w.failed = append(w.failed, r)
	}
}

func (w *walk) report(took time.Duration) {
	w.Helper()
	if w.sequences == 0 || w.traffic.sent == 0 {
		w.Errorf("%d sequences, %d honest requests: nothing was tested", w.sequences, w.traffic.sent)
	}
	w.Logf("%d sequences in %v: %.0f a minute; %d differ from the model", w.sequences, took.Round(time.Second),
		float64(w.sequences)/took.Minutes(), len(w.failed))
	for _, k := range slices.Sorted(maps.Keys(w.byKind)) {
		w.Logf("%6d %s", w.byKind[k], k)
	}
	w.Logf("honest requests: %v", w.traffic)
}

// TestSeed injects the sequence of one seed, as often as -times.
func TestSeed(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		for range *times {
			if r := h.sequence(ctx, draw(*only, *length)); r.failure() != "" {
				t.Errorf("%s\n%s\nlog:\n%s", r.failure(), replay(*only, r.faults), r.log)
			}
		}
	})
}

// TestOverflow: the fault of that name really loses address events, and the service is right
// after it.
func TestOverflow(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		h.expect(ctx, t, model.Fault{Kind: model.VIPAdd}, model.Fault{Kind: model.Overflow}, model.Fault{
			Kind: model.VIPAdd,
			VIP:  1,
		})
		log, err := os.ReadFile(h.logFile())
		if err != nil || !strings.Contains(string(log), "event=address-overflow") {
			t.Errorf("no event was lost (%v):\n%s", err, h.Tail())
		}
	})
}

// TestFewDescriptorsController: the fault of that name really keeps the controller from opening
// files, and the service is right after it.
func TestFewDescriptorsController(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		h.expect(ctx, t, model.Fault{Kind: model.VIPAdd, Pause: holdPause},
			model.Fault{Kind: model.FileWrite, File: model.ConfigYAML, Variant: 1},
			model.Fault{Kind: model.FewDescriptorsController, N: 600})
		log, err := os.ReadFile(h.logFile())
		if err != nil || !strings.Contains(string(log), "too many open files") {
			t.Errorf("the controller had descriptors (%v):\n%s", err, h.Tail())
		}
	})
}

// TestConntrackFull: the fault of that name really drops the connections of clients, and
// they are served after it.
func TestConntrackFull(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		vip := h.network().API[0]
		h.expect(ctx, t, model.Fault{Kind: model.VIPAdd, Pause: holdPause}, model.Fault{
			Kind:  model.ConntrackFull,
			Pause: holdPause,
		})
		if h.conntrack == nil { // expect has reported why
			return
		}
		err := lab.Eventually(ctx, "a dropped connection", func(ctx context.Context) error {
			before, err := h.conntrack.Dropped()
			if err != nil {
				return err
			}
			brief, cancel := context.WithTimeout(ctx, holdPause)
			defer cancel()
			conn, err := h.Outside.Dial(brief, "tcp", netip.AddrPortFrom(vip, 80).String())
			if err == nil {
				return errors.Join(errors.New("a connection was accepted"), conn.Close())
			}
			if after, err := h.conntrack.Dropped(); err != nil || after == before {
				return fmt.Errorf("%d packets were dropped before, %d after (%w)", before, after, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		h.expect(ctx, t, model.Fault{Kind: model.VIPAdd, Pause: holdPause}, model.Fault{
			Kind:  model.ConntrackFull,
			Pause: time.Second,
		}, model.Fault{Kind: model.ConntrackFree})
	})
}

// TestReloadWhileFileIsWritten replays what seed 342 found: a reload at the moment at
// which the configuration is truncated for writing made the defaults active, and a mistake
// in the file kept them so. The service then served no VIP.
func TestReloadWhileFileIsWritten(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		h.expect(ctx, t,
			model.Fault{Kind: model.VIPAdd, Pause: holdPause},
			model.Fault{Kind: model.FileCut, File: model.ConfigYAML},
			model.Fault{Kind: model.Reload, Pause: holdPause},
			model.Fault{Kind: model.FileCut, File: model.ConfigYAML, N: 500, Pause: holdPause},
		)
	})
}

// TestVIPAfterIPv6 replays what seed 5137 found: a VIP on the second link had no answer
// after IPv6 was enabled again, because the host's link-local address was tentative.
func TestVIPAfterIPv6(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		h.expect(ctx, t,
			model.Fault{Kind: model.VIPTentative, VIP: 1},
			model.Fault{Kind: model.IPv6Off},
			model.Fault{Kind: model.IPv6On},
			model.Fault{Kind: model.VIPAdd, VIP: 1, Link: 1},
		)
	})
}

// TestSourceVIPLeaves replays what seed 70922 found: the kernel had chosen an IPv6 VIP as
// the source of connections to the ingress. When it had left, requests to another VIP waited
// six seconds on the kept ones, of which there are many after a lack of descriptors.
func TestSourceVIPLeaves(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		h.expect(ctx, t,
			model.Fault{Kind: model.VIPAdd, VIP: 1, Pause: 200 * time.Millisecond},
			model.Fault{Kind: model.VIPAdd, VIP: 2, Pause: 50 * time.Millisecond},
			model.Fault{Kind: model.FewDescriptors, N: 744, Pause: 800 * time.Millisecond},
			model.Fault{Kind: model.VIPTentative, VIP: 1},
			model.Fault{Kind: model.VIPDeprecated, VIP: 3},
		)
	})
}

// TestPortChangesAtRestart replays what seed 6069 found: the configuration has another
// port when the service restarts. Connections that were queued for the old port were reset.
func TestPortChangesAtRestart(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		h.expect(ctx, t,
			model.Fault{Kind: model.VIPAdd},
			model.Fault{Kind: model.FileWrite, Variant: 1, File: model.ConfigYAML, Pause: 2 * time.Second},
			model.Fault{Kind: model.FileWrite, File: model.ConfigYAML},
			model.Fault{Kind: model.Restart},
		)
	})
}

// TestVIPArrivesDuringRestart: while a restart waits for a request in flight, a VIP that
// arrives is in the table before the process ends.
func TestVIPArrivesDuringRestart(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		if err := h.begin(ctx, false); err != nil {
			t.Fatal(err)
		}
		h.clients.Pause()
		_, err := h.inject(ctx, []model.Fault{{Kind: model.VIPAdd}, {Kind: model.IngressMode, Mode: model.Silent}})
		if err != nil {
			t.Fatal(err)
		}
		if differences, err := h.agree(ctx); err != nil || len(differences) > 0 {
			t.Fatal(err, differences)
		}
		inFlight, err := h.Outside.Dial(ctx, "tcp", netip.AddrPortFrom(h.network().API[0], 80).String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = inFlight.Close() }()
		if _, err := io.WriteString(inFlight,
			"GET /.well-known/acme-challenge/silent HTTP/1.1\r\nHost: api.lab.test\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := h.ingress.AwaitRequest(ctx); err != nil {
			t.Fatal(err)
		}
		pid, stopping, restarted := h.PID(), h.Stopping(), make(chan error, 1)
		go func() { restarted <- h.Restart(ctx) }()
		select {
		case <-stopping:
		case err := <-restarted:
			t.Fatalf("the restart has ended before its begin was reported: %v", err)
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
		vip := h.network().API[2]
		if err := h.AddVIP(vip, 0, rig.Usable); err != nil {
			t.Fatal(err)
		}
		err = lab.Eventually(ctx, "the VIP in the table", func(ctx context.Context) error {
			if h.PID() != pid {
				return fmt.Errorf("the process has ended: %s", h.Tail())
			}
			table, err := h.ServiceTable(ctx)
			if err == nil && (table == nil || !slices.Contains(table.Elements, vip)) {
				err = fmt.Errorf("the table is %+v", table)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if err := <-restarted; err != nil {
			t.Error(err)
		}
	})
}

// TestProberStandsStill: the faults of the prober process find one, and one that stands still
// for longer than a self-test waits changes nothing for clients.
func TestProberStandsStill(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		faults := []model.Fault{
			{Kind: model.VIPAdd, Pause: proberPause + time.Second},
			{Kind: model.PauseProber, N: 10_000},
			{Kind: model.VIPAdd, VIP: 1},
			{Kind: model.KillProber},
		}
		r := h.sequence(ctx, faults)
		if r.failure() != "" || !r.effects[1] { // KillProber can come between two processes
			t.Errorf("%s; effects: %v\nlog:\n%s", r.failure(), r.effects, r.log)
		}
	})
}

// TestNoDescriptorForListener replays what seed 95068 found: the controller had no
// descriptor to compare the listening socket with a new one when a proxy process started. It
// closed the socket, and had no descriptor for another one.
func TestNoDescriptorForListener(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		for range 4 { // the start of the process is a race
			h.expect(ctx, t,
				model.Fault{Kind: model.VIPAdd, Pause: holdPause},
				model.Fault{Kind: model.KillProxy, Pause: 1200 * time.Millisecond},
				model.Fault{Kind: model.KillProxy},
				model.Fault{Kind: model.FewDescriptorsController, N: 300},
			)
		}
	})
}

// TestControllerStandsStill: a controller that does not run for ten seconds replaces no
// proxy process that works, and follows the VIPs that came meanwhile.
func TestControllerStandsStill(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		if err := h.begin(ctx, false); err != nil {
			t.Fatal(err)
		}
		proxy := h.Child("proxy")
		faults := []model.Fault{{Kind: model.VIPAdd}, {Kind: model.PauseController, N: 10_000}, {Kind: model.VIPAdd, VIP: 1}}
		if _, err := h.inject(ctx, faults); err != nil {
			t.Fatal(err)
		}
		if differences, err := h.agree(ctx); err != nil || len(differences) > 0 {
			t.Errorf("%v %q", err, differences)
		}
		if now := h.Child("proxy"); now != proxy {
			t.Errorf("the proxy process %d was replaced by %d:\n%s", proxy, now, h.Tail())
		}
	})
}

// TestForeignOwner: another program owns a table of the service's name when the service
// starts. The state reports it, there is no listening socket for clients, and the service works
// when the other program ended.
func TestForeignOwner(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		if err := h.begin(ctx, false); err != nil {
			t.Fatal(err)
		}
		h.clients.Pause()
		if _, err := h.inject(ctx, []model.Fault{{Kind: model.VIPAdd}, {Kind: model.Stop}}); err != nil {
			t.Fatal(err)
		}
		release, err := h.OwnTable("http01-proxyd")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.inject(ctx, []model.Fault{{Kind: model.Start}}); err != nil {
			t.Fatal(err)
		}
		err = lab.Eventually(ctx, "NftablesUnavailable without a listening socket for clients",
			func(ctx context.Context) error {
				s, err := h.Status(ctx)
				if err != nil {
					return err
				}
				ports, err := h.listening()
				if c := s.Condition(); err == nil && (c.Reason != "NftablesUnavailable" ||
					!slices.Equal(ports, []int{model.MetricsPort})) {
					err = fmt.Errorf("%s: %s; listening on %v", c.Reason, c.Message, ports)
				}
				return err
			})
		if err = errors.Join(err, release()); err != nil {
			t.Error(err)
		}
		err = lab.Eventually(ctx, "the service after the other owner", func(ctx context.Context) error {
			want := h.model.Expect(time.Now())
			got, err := h.observe(ctx, true)
			if differences := h.closest(want, got); err == nil && len(differences) > 0 {
				err = fmt.Errorf("%q", differences)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}
