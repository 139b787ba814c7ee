// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/slowsync"
)

// TestVIPMoveDoesNotWait moves a VIP while no fsync returns and the DNS server never
// answers. Neither is on the path from an address event to the rule.
func TestVIPMoveDoesNotWait(t *testing.T) {
	l, _ := cluster(t)
	node := l.Pods[0]
	vips := Pair{V4: netip.MustParseAddr("10.128.0.51"), V6: netip.MustParseAddr("fd4e:5f2a:9c01:80::51")}
	must(t, node.WriteHostFile("resolv.conf", "nameserver 10.128.0.253\n")) // where nothing answers
	t.Cleanup(func() { _ = os.Remove(node.HostFile("resolv.conf")) })
	config := func(proxy string) string {
		return configWithVIPs(vips, l.Ingress) +
			"hosts: [api.example.com]\negressProxy: {upstream: auto, httpProxy: 'http://" + proxy + ".test:3128'}\n"
	}
	delayer, err := slowsync.New(t.TempDir(), time.Hour)
	must(t, err)
	s := start(t, node, ServiceOptions{Config: config("first"), Wrap: delayer.Command()})
	t.Cleanup(func() { _ = delayer.Close() }) // before the service stops
	slowest := 0.0
	for i := range 3 {
		// A new configuration is saved, and its proxy has a new name.
		reloads := s.Notifications.Count("RELOADING=1")
		must(t, node.WriteConfig(config(fmt.Sprintf("proxy%d", i))))
		must(t, Eventually(t.Context(), "a reload", func(context.Context) error {
			if s.Notifications.Count("RELOADING=1") == reloads {
				return errors.New("none")
			}
			return nil
		}))
		for _, vip := range vips.Both() {
			prefix := netip.PrefixFrom(vip, vip.BitLen()).String()
			_, err := node.Run(t.Context(), "ip", "address", "add", prefix, "dev", "eth0", "nodad")
			must(t, err)
			slowest = max(slowest, awaitElements(t, s, 1).Events.LastRuleDelay)
			_, err = node.Run(t.Context(), "ip", "address", "del", prefix, "dev", "eth0")
			must(t, err)
			slowest = max(slowest, awaitElements(t, s, 0).Events.LastRuleDelay)
		}
	}
	t.Logf("%d calls of fsync wait; the slowest rule was committed %v µs after its event", delayer.Delayed(), slowest)
	if delayer.Delayed() == 0 {
		t.Error("no fsync was delayed, so this shows nothing")
	}
	if slowest == 0 || slowest > 1e6 { // a lookup ends after some seconds
		t.Errorf("a rule was committed %v µs after its event", slowest)
	}
}

// awaitElements waits until the table and the report have that many held VIPs.
func awaitElements(t *testing.T, s *Service, n int) Status {
	t.Helper()
	seen, err := s.Await(t.Context(), fmt.Sprintf("%d VIPs in the table", n), func(seen Status) error {
		held := 0
		for _, v := range seen.VIPs {
			if v.State == "Held" {
				held++
			}
		}
		if held != n || len(seen.Table.Elements) != n {
			return fmt.Errorf("%d held, table %v", held, seen.Table.Elements)
		}
		return nil
	})
	must(t, err)
	return seen
}
