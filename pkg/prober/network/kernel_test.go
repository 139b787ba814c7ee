// SPDX-License-Identifier: Apache-2.0

package network_test

import (
	"net"
	"net/netip"
	"os/exec"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
)

// addLAN adds a bridge with addresses of both families.
func addLAN(t *testing.T) *net.Interface {
	t.Helper()
	nstest.Require(t)
	nstest.Run(t, "sysctl", "-qw", noDAD)
	nstest.Run(t, "ip", "link", "add", "lan0", "address", "02:00:00:00:00:fe", "type", "bridge")
	t.Cleanup(func() {
		// The test's context has ended.
		if out, err := exec.Command("ip", "link", "delete", "lan0").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	nstest.Run(t, "ip", "link", "set", "lan0", "up")
	nstest.Run(t, "ip", "address", "add", "192.0.2.1/24", "dev", "lan0")
	nstest.Run(t, "ip", "address", "add", "2001:db8::1/64", "dev", "lan0", "nodad")
	link, err := net.InterfaceByName("lan0")
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// TestPath: a path that carries large packets, one that drops them silently, one where a
// router reports it, and a host that does not answer.
func TestPath(t *testing.T) {
	addLAN(t)
	near := addHost(t, "near")
	near.run("ip", "address", "add", "192.0.2.11/24", "dev", "eth0")
	near.run("ip", "address", "add", "2001:db8::11/64", "dev", "eth0", "nodad")
	want := func(what string, want prober.PathResult, to ...string) {
		t.Helper()
		var both sync.WaitGroup
		for _, addr := range to {
			both.Go(func() {
				got, err := prober.MeasurePath(withTimeout(t, testTimeout), netip.MustParseAddr(addr), 1500)
				if err != nil {
					t.Error(err)
				} else if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, %s (-want +got):\n%s", what, addr, diff)
				}
			})
		}
		both.Wait()
	}
	want("whole", prober.PathResult{Small: true, Large: true}, "192.0.2.11", "2001:db8::11")
	want("this host", prober.PathResult{Small: true, Large: true}, "192.0.2.1", "2001:db8::1")
	want("nobody", prober.PathResult{}, "192.0.2.99", "2001:db8::99")

	near.run("ip", "link", "set", "eth0", "mtu", "1400")
	want("black hole", prober.PathResult{Small: true}, "192.0.2.11", "2001:db8::11")
	near.run("ip", "link", "set", "eth0", "mtu", "1500")

	far := addHost(t, "far")
	nstest.Run(t, "ip", "link", "set", "far", "nomaster")
	nstest.Run(t, "ip", "link", "set", "far", "netns", near.path())
	near.run("ip", "link", "set", "far", "up", "mtu", "1400")
	near.run("ip", "address", "add", "198.51.100.1/24", "dev", "far")
	near.run("ip", "address", "add", "2001:db8:f::1/64", "dev", "far", "nodad")
	near.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	far.run("ip", "address", "add", "198.51.100.9/24", "dev", "eth0")
	far.run("ip", "address", "add", "2001:db8:f::9/64", "dev", "eth0", "nodad")
	far.run("ip", "route", "add", "default", "via", "198.51.100.1")
	far.run("ip", "route", "add", "default", "via", "2001:db8:f::1")
	nstest.Run(t, "ip", "route", "add", "198.51.100.0/24", "via", "192.0.2.11")
	nstest.Run(t, "ip", "route", "add", "2001:db8:f::/64", "via", "2001:db8::11")
	want("a router that reports it", prober.PathResult{Small: true, TooBig: true}, "198.51.100.9", "2001:db8:f::9")
}
