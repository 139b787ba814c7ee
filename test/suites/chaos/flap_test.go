// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"flag"
	"fmt"
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
// journal has few entries about it.
func TestFlap(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		if err := h.begin(ctx, false); err != nil {
			t.Fatal(err)
		}
		h.clients.Pause()
		_ = os.Truncate(h.logFile(), 0) // without the start
		begin := time.Now()
		changes := int(*flapping/flapInterval) | 1 // it ends with the VIP on the host
		if _, err := h.inject(ctx, []model.Fault{{Kind: model.VIPFlap, N: changes}}); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begin)
		differences, err := h.agree(ctx)
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
		t.Log(kinds)
		// Of the VIP and of the state: six at once, and one every ten seconds (changelog).
		about := kinds["state"] + kinds["vip-gained"] + kinds["vip-lost"]
		if limit := 2 * (6 + 1 + int(took/(10*time.Second))); about > limit {
			t.Errorf("%d journal lines about %d changes in %v, at most %d are expected:\n%s", about, changes, took, limit,
				h.Tail())
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

// events finds the kind of each journal entry.
var events = regexp.MustCompile(`\bevent=(\S+)`)
