// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/suites/chaos/model"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/rig"
)

// TestAttackers: half-open connections, a response that blocks the write of the proxy process,
// and a flood really reach the host. The sequences show that honest clients are served.
func TestAttackers(t *testing.T) {
	withHost(t, func(ctx context.Context, h *host) {
		h.expect(ctx, t, model.Fault{Kind: model.VIPAdd}, model.Fault{Kind: model.VIPAdd, VIP: 1})
		var blocked []rig.Socket // at the last look
		seen := make(map[string]bool)
		err := lab.Eventually(ctx, "the attacks", func(ctx context.Context) error {
			inside, err := h.Sockets(ctx, h.Host)
			if err != nil {
				return err
			}
			outside, err := h.Sockets(ctx, h.Outside)
			if err != nil {
				return err
			}
			sources := make(map[netip.Addr]int)
			var now []rig.Socket
			for _, s := range inside {
				switch from := s.Remote.Addr(); {
				case s.State == "SYN-RECV":
					seen["half-open"] = seen["half-open"] || from == rig.HalfOpenAddress(from)
				case s.State != "ESTAB":
				case s.Send > 0 && s.Send+received(outside, s) < rig.LargeBody: // the rest is in the process
					now = append(now, s)
					seen["blocked write"] = seen["blocked write"] || slices.Contains(blocked, s)
				default:
					sources[from]++
					seen["flood"] = seen["flood"] || sources[from] >= rig.FloodSize/2
				}
			}
			blocked = now
			if len(seen) < 3 || !seen["half-open"] || !seen["blocked write"] || !seen["flood"] {
				return fmt.Errorf("seen so far: %v; %d connections", seen, len(inside))
			}
			return nil
		})
		if err != nil {
			t.Errorf("%v\n%s", err, h.Tail())
		}
	})
}

// received returns the number of bytes that the client of a connection has not read.
func received(outside []rig.Socket, s rig.Socket) int {
	for _, o := range outside {
		if o.Local == s.Remote {
			return o.Recv
		}
	}
	return 0
}
