// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/conntrack"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// sendPackets sends packets that start connections until the context ends.
func sendPackets(ctx context.Context, n *lab.Node) {
	_ = n.InNamespace(func() error {
		s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(s)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for port := 20000; ; port++ {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				// A dropped packet returns an error to the sender.
				_ = unix.Sendto(s, []byte("x"), 0, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port})
			}
		}
	})
}

// TestConntrack fills the kernel's connection tracking table for a control-plane node.
func TestConntrack(t *testing.T) {
	c := healthy(t, nil)
	n := c.ControlPlane[2].Node
	full, err := conntrack.Open(n)
	must(t, err)
	t.Cleanup(func() { must(t, full.Close()) })
	most := full.Max * 93 / 100
	must(t, full.Fill(0, most))
	r := c.expectFindings(n, []string{"conntrack-full"})
	c.expectText(r, "conntrack-full", fmt.Sprintf("of %d entries", full.Max))

	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); sendPackets(ctx, n) }()
	defer func() { stop(); <-over }()
	must(t, full.Fill(most, full.Max))
	r = c.expectFindings(n, []string{"conntrack-drops"})
	c.expectText(r, "conntrack-drops", "within 500ms")
}
