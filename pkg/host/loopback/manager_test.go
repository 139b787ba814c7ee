// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"bytes"
	"log/slog"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
)

// loopbackAddresses lists the single addresses of lo in the kernel's order.
func loopbackAddresses(t *testing.T) string {
	t.Helper()
	var found []string
	for _, family := range []string{"-4", "-6"} {
		for field := range strings.FieldsSeq(nstest.Run(t, "ip", family, "-o", "address", "show", "dev", "lo")) {
			if strings.HasSuffix(field, "/32") || strings.HasSuffix(field, "/128") && field != "::1/128" {
				found = append(found, field)
			}
		}
	}
	return strings.Join(found, " ")
}

func parseAddrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

// newTestManager returns a Manager in a namespace whose lo is restored at the end of the
// test.
func newTestManager(t *testing.T) (*Manager, *bytes.Buffer) {
	t.Helper()
	nstest.Require(t)
	var log bytes.Buffer
	m := NewManager(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() {
		for _, args := range [][]string{
			{"ip", "address", "flush", "dev", "lo"},
			{"ip", "address", "add", "127.0.0.1/8", "dev", "lo"},
			{"ip", "address", "add", "::1/128", "dev", "lo"},
		} {
			runCleanup(t, args...)
		}
	})
	return m, &log
}

// runCleanup runs a command after the end of the test's context.
func runCleanup(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%v: %v: %s", args, err, out)
	}
}

func expectLoopback(t *testing.T, when, want string) {
	t.Helper()
	if got := loopbackAddresses(t); got != want {
		t.Errorf("%s: lo has %q, want %q", when, got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func TestEnsure(t *testing.T) {
	m, log := newTestManager(t)
	both := parseAddrs("10.44.0.0", "fd02::1:0")
	must(t, m.Ensure(both, nil))
	expectLoopback(t, "first", "10.44.0.0/32 fd02::1:0/128")
	must(t, m.Ensure(both, nil))
	expectLoopback(t, "again", "10.44.0.0/32 fd02::1:0/128")
	nstest.Run(t, "ip", "address", "del", "10.44.0.0/32", "dev", "lo")
	must(t, m.Ensure(both, nil))
	expectLoopback(t, "after a deletion", "10.44.0.0/32 fd02::1:0/128")
	must(t, m.Ensure(nil, both))
	expectLoopback(t, "configured manually since", "10.44.0.0/32 fd02::1:0/128")
	must(t, m.Ensure(parseAddrs("172.31.0.0"), nil))
	expectLoopback(t, "another network", "172.31.0.0/32")
	must(t, m.Ensure(nil, nil))
	expectLoopback(t, "at the end", "")
	if n := strings.Count(log.String(), "added "); n != 4 {
		t.Errorf("logged:\n%s", log.String())
	}
}

// TestEnsureIgnoresForeignAddress: an address that MicroShift deleted and added again
// belongs to MicroShift.
func TestEnsureIgnoresForeignAddress(t *testing.T) {
	m, _ := newTestManager(t)
	must(t, m.Ensure(parseAddrs("10.44.0.0"), nil))
	nstest.Run(t, "ip", "address", "del", "10.44.0.0/32", "dev", "lo")
	nstest.Run(t, "ip", "address", "add", "10.44.0.0/32", "dev", "lo")
	must(t, m.Ensure(nil, nil))
	expectLoopback(t, "added by another program", "10.44.0.0/32")
}

func TestEnsureRejectsCollisions(t *testing.T) {
	m, _ := newTestManager(t)
	nstest.Run(t, "ip", "link", "add", "lan0", "type", "veth", "peer", "name", "lan1")
	t.Cleanup(func() { runCleanup(t, "ip", "link", "del", "lan0") })
	for _, args := range []string{
		"link set lan0 up", "link set lan1 up", "address add 192.0.2.9/24 dev lan0", "route add default via 192.0.2.1",
		"address add 10.44.0.0/31 dev lan0", "route add 172.16.0.0/12 via 192.0.2.1",
		"-6 address add 2001:db8::9/64 dev lan0 nodad", "-6 route add default via 2001:db8::1",
		"-6 route add fd02::/32 via 2001:db8::1",
	} {
		nstest.Run(t, "ip", strings.Fields(args)...)
	}
	for addr, want := range map[string]string{
		"10.44.0.0":  "lan0 has 10.44.0.0/31: configure another network.serviceNetwork",
		"172.31.0.0": "the route 172.16.0.0/12 via lan0 covers it: configure another",
		"fd02::1:0":  "the route fd02::/32 via lan0 covers it",
		"192.0.2.0":  "the route 192.0.2.0/24 via lan0",
	} {
		err := m.Ensure(parseAddrs(addr), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	// A free address before one in use: MicroShift must add both itself.
	if err := m.Ensure(parseAddrs("10.47.0.0", "fd02::1:0"), nil); err == nil || !strings.Contains(err.Error(),
		"the route fd02::/32 via lan0") {
		t.Errorf("one of two: %v", err)
	}
	expectLoopback(t, "after collisions", "")
	if err := m.Ensure(parseAddrs("10.44.0.0", "fd03::1:0"), nil); err == nil || !strings.Contains(err.Error(),
		"lan0 has") {
		t.Errorf("one of two: %v", err)
	}
	expectLoopback(t, "one behind it", "fd03::1:0/128")
	must(t, m.Ensure(parseAddrs("10.47.0.0", "fd03::1:0"), nil)) // only default routes cover them
	expectLoopback(t, "beside them", "10.47.0.0/32 fd03::1:0/128")
	must(t, m.Ensure(nil, nil))
}

func TestEnsureAddressOnBridge(t *testing.T) {
	m, _ := newTestManager(t)
	nstest.Run(t, "ip", "link", "add", "br-ex", "type", "bridge")
	t.Cleanup(func() { runCleanup(t, "ip", "link", "del", "br-ex") })
	nstest.Run(t, "ip", "address", "add", "10.44.0.0/32", "dev", "br-ex")
	must(t, m.Ensure(parseAddrs("10.44.0.0"), nil))
	expectLoopback(t, "the address is on OVN's bridge", "")
}

// TestForeignAddressesStay: addresses with another metric, another prefix length or on
// another link are not removed. An address that MicroShift has on its link may also be on
// other links.
func TestForeignAddressesStay(t *testing.T) {
	m, _ := newTestManager(t)
	nstest.Run(t, "ip", "link", "add", "lan0", "type", "veth", "peer", "name", "lan1")
	t.Cleanup(func() { runCleanup(t, "ip", "link", "del", "lan0") })
	ours := strconv.Itoa(markMetric)
	for _, args := range []string{
		"address add 10.44.0.0/32 dev lo metric 100", "address add 10.45.0.0/24 dev lo metric " + ours,
		"address add 10.46.0.0/32 dev lan0 metric " + ours, "-6 address add fd02::1:0/128 dev lo",
		"address add 10.44.0.0/32 dev lan0",
	} {
		nstest.Run(t, "ip", strings.Fields(args)...)
	}
	must(t, m.Ensure(parseAddrs("10.44.0.0", "fd02::1:0"), nil))
	must(t, m.Ensure(nil, nil))
	if removed, err := Cleanup(); err != nil || len(removed) > 0 {
		t.Errorf("cleanup: %v, %v", removed, err)
	}
	expectLoopback(t, "others'", "10.44.0.0/32 fd02::1:0/128")
	for _, link := range []string{"lo", "lan0"} {
		if got := nstest.Run(t, "ip", "-4", "-o", "address", "show", "dev", link); strings.Count(got, ours) != 1 {
			t.Errorf("%s has\n%s", link, got)
		}
	}
}

// TestRestartAndCleanup: the next process removes what an earlier one added, and so does
// cleanup, in both families.
func TestRestartAndCleanup(t *testing.T) {
	m, _ := newTestManager(t)
	both := parseAddrs("10.44.0.0", "fd02::1:0")
	must(t, m.Ensure(both, nil))
	next := NewManager(m.log)
	must(t, next.Ensure(both, nil))
	expectLoopback(t, "over a restart", "10.44.0.0/32 fd02::1:0/128")
	must(t, NewManager(m.log).Ensure(both[:1], nil))
	expectLoopback(t, "the next process requires less", "10.44.0.0/32")
	must(t, next.Ensure(both, nil))
	removed, err := Cleanup()
	if err != nil || !slices.Equal(removed, both) {
		t.Errorf("cleanup: %v, %v", removed, err)
	}
	expectLoopback(t, "after cleanup", "")
	if removed, err := Cleanup(); err != nil || len(removed) > 0 {
		t.Errorf("a second cleanup: %v, %v", removed, err)
	}
}
