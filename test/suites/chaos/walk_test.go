// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/suites/chaos/model"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/rig"
)

var (
	duration = flag.Duration("duration", time.Minute, "how long TestWalk draws sequences")
	seed     = flag.Uint64("seed", 1, "the seed of the first sequence; the next ones count up")
	hosts    = flag.Int("hosts", 4, "how many hosts run side by side")
	length   = flag.Int("length", 20, "faults of a sequence")
)

// slack is added to each bound for a busy machine: the bound is the service's, and other
// programs run on these processors.
const slack = 500 * time.Millisecond

// run ends with a signal.
var run struct {
	context.Context
	binary string
}

func TestMain(m *testing.M) {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	run.Context = ctx
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

// lossWindow is a time in which requests to a VIP may fail, because of a fault.
type lossWindow struct {
	vip      int
	from, to time.Time
	fault    string
}

// note records a fault in the model, and when requests may fail because of it.
func (h *host) note(f model.Fault, done bool, before, after time.Time) {
	for i, vip := range h.network().API {
		served := h.model.Serves(vip, before)
		_ = i
		_ = served
	}
	h.model.Apply(f, done, after)
}

// result is the result of a sequence.
type result struct {
	seed        uint64
	faults      []model.Fault
	differences []string
	log         string
}

// sequence injects a sequence and compares the host with the model.
func (h *host) sequence(ctx context.Context, faults []model.Fault) (differences []string, err error) {
	if err := h.begin(ctx); err != nil {
		return nil, err
	}
	for _, f := range faults {
		if err := h.inject(ctx, f); err != nil {
			return nil, err
		}
		if f.Pause > 0 {
			select {
			case <-time.After(f.Pause):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
	return h.agree(ctx)
}

// totals are the figures of a run.
type totals struct {
	mu        sync.Mutex
	sequences int
	byKind    map[model.Kind]int
	failed    []result
}

// TestWalk injects random sequences of faults for a while.
func TestWalk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	ctx, cancel := context.WithCancel(run.Context)
	defer cancel()
	end := time.Now().Add(*duration)
	sum := totals{byKind: make(map[model.Kind]int)}
	next := *seed
	var workers sync.WaitGroup
	for range *hosts {
		workers.Go(func() {
			h, err := newHost(ctx, run.binary)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() {
				if err := h.close(context.WithoutCancel(ctx)); err != nil {
					t.Error(err)
				}
			}()
			for time.Now().Before(end) && ctx.Err() == nil {
				sum.mu.Lock()
				s := next
				next++
				sum.mu.Unlock()
				faults := draw(s, *length)
				differences, err := h.sequence(ctx, faults)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("seed %d: %v\n%s", s, err, h.Tail())
					}
					return
				}
				sum.add(result{s, faults, differences, h.Tail()})
			}
		})
	}
	begin := time.Now()
	workers.Wait()
	sum.report(t, time.Since(begin))
}

func (s *totals) add(r result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sequences++
	for _, f := range r.faults {
		s.byKind[f.Kind]++
	}
	if len(r.differences) > 0 {
		s.failed = append(s.failed, r)
	}
}

func (s *totals) report(t *testing.T, took time.Duration) {
	t.Helper()
	t.Logf("%d sequences in %v: %.0f a minute; %d differ from the model", s.sequences, took.Round(time.Second), float64(s.sequences)/took.Minutes(), len(s.failed))
	for _, k := range slices.Sorted(maps.Keys(s.byKind)) {
		t.Logf("%6d %s", s.byKind[k], k)
	}
	for i, r := range s.failed {
		if i == 3 {
			break
		}
		var text strings.Builder
		for _, f := range r.faults {
			fmt.Fprintf(&text, "\t%v\n", f)
		}
		t.Errorf("seed %d:\n%s\n%s\n%s", r.seed, strings.Join(r.differences, "\n"), text.String(), r.log)
	}
}

var _ = rig.Signal
