// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"testing"
)

// TestFailover moves the VIPs by the ways in which they move in the field and
// back, and gets a certificate after each move.
func TestFailover(t *testing.T) {
	tests := []struct {
		name string
		away func(context.Context, *Master) error
		back func(context.Context, *Master) error
	}{
		{
			name: "keepalived stopped",
			away: func(ctx context.Context, m *Master) error { return m.StopKeepalived(ctx) },
			back: func(ctx context.Context, m *Master) error { return m.StartKeepalived(ctx) },
		},
		{
			name: "cable pulled",
			away: func(ctx context.Context, m *Master) error { return m.Unplug(ctx) },
			back: func(ctx context.Context, m *Master) error { return m.Plug(ctx) },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := cluster(t)
			services := startAll(t, l)
			name := named(t, l, "failover", l.API)
			renew := func(holder int) {
				t.Helper()
				must(t, l.Settled(t.Context()))
				awaitHolder(t, l, services, holder)
				before, err := services[holder].Status(t.Context())
				must(t, err)
				_, err = l.Certificate(t.Context(), Order{Name: name, SelfCheckFrom: l.Pods[2]})
				must(t, err)
				after, err := services[holder].Status(t.Context())
				must(t, err)
				if after.Challenges.Total == before.Challenges.Total {
					t.Errorf("the challenges did not go through master%d", holder)
				}
			}
			renew(0)
			must(t, tt.away(t.Context(), l.Masters[0]))
			renew(1)
			must(t, tt.back(t.Context(), l.Masters[0]))
			renew(0)
		})
	}
}
