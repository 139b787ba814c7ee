// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/suites/chaos/model"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

var flapping = flag.Duration("flapping", 3*time.Second, "how long TestFlap flaps a VIP")

// TestFlap: a VIP that comes and goes 100 times a second ends in the right state, and the
// journal has few entries about it. It prints what the changes cost: the processor time of
// the controller, and the journal entries by kind.
func TestFlap(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		if err := h.begin(ctx, false); err != nil {
			t.Fatal(err)
		}
		h.clients.Pause()
		pid := h.PID()
		_ = os.Truncate(h.logFile(), 0) // without the start
		before, begin := ticks(t, pid), time.Now()
		changes := int(*flapping/flapInterval) | 1 // it ends with the VIP on the host
		if err := h.inject(ctx, []model.Fault{{Kind: model.VIPFlap, N: changes}}); err != nil {
			t.Fatal(err)
		}
		took, used := time.Since(begin), ticks(t, pid)-before
		late, differences, err := h.agree(ctx)
		if err != nil || len(differences) > 0 {
			t.Errorf("%v\n%s\n%s", err, strings.Join(differences, "\n"), h.Tail())
		}
		var log []byte
		err = lab.Within(ctx, 2*summaryInterval, "the last journal entry of the VIP", func(context.Context) error {
			var err error
			if log, err = os.ReadFile(h.logFile()); err != nil {
				return err
			}
			if last := lastOf(h.network().API[0].String(), log); last != "vip-gained" {
				err = fmt.Errorf("it is %q, want vip-gained", last)
			}
			return err
		})
		if err != nil {
			t.Errorf("%v\n%s", err, h.Tail())
		}
		kinds := make(map[string]int)
		for _, event := range events.FindAllSubmatch(log, -1) {
			kinds[string(event[1])]++
		}
		lines := strings.Count(string(log), "\n")
		t.Logf("%d changes in %v (%.1f a second): the controller used %.1f %% of a processor; %d journal lines, %.2f a second; agreed %v after the bound",
			changes, took.Round(time.Millisecond), float64(changes)/took.Seconds(), float64(used)/clockTicks/took.Seconds()*100, lines, float64(lines)/took.Seconds(), late)
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			t.Logf("%6d %s", kinds[kind], kind)
		}
		// Of the VIP and of the state: six at once, and one every ten seconds (changelog).
		about := kinds["state"] + kinds["vip-gained"] + kinds["vip-lost"]
		if limit := 2 * (6 + 1 + int(took/(10*time.Second))); about > limit {
			t.Errorf("%d journal lines about %d changes in %v, at most %d are expected:\n%s", about, changes, took, limit, h.Tail())
		}
	})
}

// summaryInterval is when the change log reports changes that had no entry of their own.
const summaryInterval = 10 * time.Second

// lastOf returns the kind of the last journal entry about a VIP.
func lastOf(vip string, log []byte) (kind string) {
	for line := range strings.Lines(string(log)) {
		found := events.FindStringSubmatch(line)
		if found != nil && slices.Contains(strings.Fields(line), "vip="+vip) {
			kind = found[1]
		}
	}
	return kind
}

// TestLastOf: entries of other VIPs do not count.
func TestLastOf(t *testing.T) {
	t.Parallel()
	log := []byte("msg=a event=vip-gained vip=192.0.2.5\nmsg=b event=vip-lost vip=192.0.2.5\nmsg=c event=vip-gained vip=192.0.2.55\nmsg=d event=state\n")
	for vip, want := range map[string]string{"192.0.2.5": "vip-lost", "192.0.2.55": "vip-gained", "192.0.2.6": ""} {
		if got := lastOf(vip, log); got != want {
			t.Errorf("%s: %q, want %q", vip, got, want)
		}
	}
}

// events finds the kind of each journal entry.
var events = regexp.MustCompile(`\bevent=(\S+)`)

// clockTicks is USER_HZ, the unit of times in /proc/PID/stat (proc(5)).
const clockTicks = 100

// ticks returns the processor time of a process in USER_HZ.
func ticks(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	var state string
	var skip [10]int
	var user, system int
	if _, err := fmt.Sscan(rest, &state, &skip[0], &skip[1], &skip[2], &skip[3], &skip[4], &skip[5], &skip[6], &skip[7], &skip[8], &skip[9], &user, &system); err != nil {
		t.Fatalf("read the processor time of %d: %v", pid, err)
	}
	return user + system
}
