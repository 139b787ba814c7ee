// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// microShiftObservation returns the observation of a MicroShift host with one node address
// of each family.
func microShiftObservation(t *testing.T, config string, change func(*microshift.Computed)) observation {
	t.Helper()
	s := observation{files: files{
		config: parseConfig(t, config), configKnown: true,
		keepalived: keepalived.Snapshot{Known: true, Err: fs.ErrNotExist},
	}, addresses: hostAddresses("192.0.2.9",
		"192.0.2.10", "2001:db8::9", "10.44.0.0")}
	s.microShift.Present, s.microShift.Known = true, true
	s.microShift.Computed = microshift.Computed{
		NodeIPs: addrs("192.0.2.9", "2001:db8::9"), Internal: addrs("10.44.0.0", "fd02::1:0"),
		Router: microshift.Router{
			Addresses: addrs("10.44.0.0", "192.0.2.9", "192.0.2.10", "2001:db8::9"), HTTP: 80,
			HTTPS: 443,
		},
	}
	change(&s.microShift.Computed)
	return s
}

// setSingleAddress moves an address to a link as a single address.
func (o *observation) setSingleAddress(addr, link string) {
	a := netip.MustParseAddr(addr)
	o.addresses = slices.DeleteFunc(o.addresses, func(b address.Address) bool { return b.IP == a })
	o.addresses = append(o.addresses, address.Address{IP: a, Bits: a.BitLen(), LinkName: link})
}

// TestDecideMicroShift: the plan of package decision, and the VIPs that precede it.
func TestDecideMicroShift(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config   string
		change   func(*microshift.Computed)
		observed func(*observation)
		reason   report.Reason
		message  string
		held     string
		ingress  string
		ports    [2]uint16 // of the ingress
	}{
		"router on another port": {
			change:  func(c *microshift.Computed) { c.Router.HTTP, c.Router.HTTPS = 8080, 8443 },
			reason:  report.Serving,
			held:    "[192.0.2.9 2001:db8::9]",
			ingress: "[192.0.2.9 2001:db8::9 192.0.2.10]", ports: [2]uint16{8080, 8443},
		},
		"explicit VIPs win": {
			config: "vips: {api: [192.0.2.10], ingress: [192.0.2.6]}",
			reason: report.Serving, message: "holds 192.0.2.10", held: "[192.0.2.10]", ingress: "[192.0.2.6]",
			ports: [2]uint16{80, 443},
		},
		"explicit VIPs, one of them internal": {
			config: "vips: {api: [192.0.2.10, 10.44.0.0], ingress: [192.0.2.6]}",
			reason: report.Serving,
			message: "10.44.0.0 is the internal address of MicroShift's API server, which is never redirected: delete it " +
				"from vips.api", held: "[192.0.2.10]", ingress: "[192.0.2.6]", ports: [2]uint16{80, 443},
		},
		"an internal VIP": {
			config: `vips: {api: ["10.44.0.0"], ingress: [192.0.2.6]}`,
			reason: report.NoVIPs, message: "10.44.0.0 is the internal address",
		},
		"an internal VIP while the configuration is not known": {
			config:   `vips: {api: ["10.44.0.0"], ingress: [192.0.2.6]}`,
			change:   func(c *microshift.Computed) { *c = microshift.Computed{} },
			observed: func(s *observation) { s.microShift.Known = false },
			reason:   report.NoVIPs, message: "10.44.0.0 is the internal address",
		},
		"an internal VIP of keepalived's": {
			observed: func(s *observation) {
				s.keepalived = keepalivedVIPs(addrs("10.44.0.0", "192.0.2.10"), addrs("192.0.2.6"))
			},
			reason: report.Serving,
			message: "; 10.44.0.0 is the internal address of MicroShift's API server, which is never redirected: " +
				"delete it from /etc/keepalived/keepalived.conf, or set vips.api and vips.ingress", held: "[192.0.2.10]",
			ingress: "[192.0.2.6]", ports: [2]uint16{80, 443},
		},
		"not looked at, and an internal VIP is alone on lo": {
			config:   `{microshift: {directory: ""}, vips: {api: ["10.44.0.0"], ingress: [192.0.2.6]}}`,
			observed: func(s *observation) { s.microShift = decision.State{}; s.setSingleAddress("10.44.0.0", "lo") },
			reason:   report.NoVIPs,
			message: "10.44.0.0 is a single address on lo or br-ex, where MicroShift puts the internal address of its API " +
				"server, which is never redirected: " +
				"set vips.api to the address that clients use for the API; if it is a VIP, move it to another link, or add it " +
				"with the prefix length of its network",
		},
		"not looked at, and one of two is alone on br-ex": {
			config:   `{microshift: {directory: ""}, vips: {api: ["fd02::1:0", 192.0.2.10], ingress: [192.0.2.6, "2001:db8::6"]}}`,
			observed: func(s *observation) { s.microShift = decision.State{}; s.setSingleAddress("fd02::1:0", "br-ex") },
			reason:   report.Serving, message: "fd02::1:0 is a single address on lo or br-ex, where MicroShift puts",
			held: "[192.0.2.10]", ingress: "[192.0.2.6 2001:db8::6]", ports: [2]uint16{80, 443},
		},
		"its directory does not exist, and manageAdvertiseAddress is set": {
			config:   "microshift: {directory: /etc/micro, manageAdvertiseAddress: true}",
			observed: func(s *observation) { s.microShift = decision.State{} },
			reason:   report.NoVIPs,
			message:  "MicroShift's directory /etc/micro does not exist or cannot be read: correct microshift.directory",
		},
		"keepalived's pod is here": {
			observed: func(s *observation) { s.staticPod = "/k/keepalived.yaml" },
			reason:   report.NoVIPs, message: "keepalived's static pod",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.change == nil {
				tt.change = func(*microshift.Computed) {}
			}
			s := microShiftObservation(t, tt.config, tt.change)
			if tt.observed != nil {
				tt.observed(&s)
			}
			p := decide(s)
			if p.Reason != tt.reason || !strings.Contains(p.Message+p.MessageSuffix, tt.message) {
				t.Errorf("%s: %s%s", p.Reason, p.Message, p.MessageSuffix)
			}
			held, ingress := fmt.Sprint(p.table(1).VIPs()), fmt.Sprint(p.Ingress)
			if tt.held == "" {
				tt.held = "[]"
			}
			if diff := cmp.Diff(tt.held, held); diff != "" {
				t.Errorf("held (-want +got):\n%s", diff)
			}
			if !p.Serves {
				return
			}
			if diff := cmp.Diff(tt.ingress, ingress); diff != "" {
				t.Errorf("ingress (-want +got):\n%s", diff)
			}
			if c := p.WithRouterPorts(s.config); [2]uint16{c.Upstream.Port, c.Upstream.HTTPSPort} != tt.ports {
				t.Errorf("ports %d, %d", c.Upstream.Port, c.Upstream.HTTPSPort)
			}
		})
	}
}

func TestInternalAddresses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config    string
		change    func(*microshift.Computed)
		want, key string
		unknown   bool
	}{
		"not configured": {config: "{}"},
		"both families":  {want: "[10.44.0.0 fd02::1:0]"},
		"forced":         {change: func(c *microshift.Computed) { c.AdvertiseAddressGiven = true }},
		"not known":      {change: func(c *microshift.Computed) { c.Internal = nil }, unknown: true},
		"one would be taken for the node's": {
			change: func(c *microshift.Computed) { c.MissingKey = "node.nodeIPv6" },
			want:   "[10.44.0.0]", key: "node.nodeIPv6", // the host has 10.44.0.0
		},
		"one would be, and the other is not there": {
			change: func(c *microshift.Computed) {
				c.Internal, c.MissingKey = addrs("10.47.0.0", "fd02::1:0"), "node.nodeIPv6"
			},
			key: "node.nodeIPv6",
		},
		"it would be, and is there already": {
			change: func(c *microshift.Computed) { c.Internal, c.MissingKey = addrs("10.44.0.0"), "node.nodeIP" },
			want:   "[10.44.0.0]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.config == "" {
				tt.config = "microshift: {manageAdvertiseAddress: true}"
			}
			if tt.change == nil {
				tt.change = func(*microshift.Computed) {}
			}
			want, key, known := microShiftObservation(t, tt.config, tt.change).loopbackAddresses()
			if tt.want == "" {
				tt.want = "[]"
			}
			if fmt.Sprint(want) != tt.want || key != tt.key || known == tt.unknown {
				t.Errorf("%v, missing %q, known %v", want, key, known)
			}
		})
	}
}

// TestMicroShiftChangesApplied: changes of MicroShift's files take effect while the service
// runs, including the addresses on lo.
func TestMicroShiftChangesApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(f *fixture) {
			f.microShift("ms", ", manageAdvertiseAddress: true")
			f.held = parsePrefixes("192.0.2.9/24 eth0", "192.0.2.10/24 eth0")
			f.defaultLinks = []uint32{2}
		})
		defer f.stop()
		expectEnsured := func(when, want string) {
			t.Helper()
			f.withLock(func() {
				if got := fmt.Sprint(f.loopbackWant); got != want {
					t.Errorf("%s: the arguments of Ensure are %s, want %s", when, got, want)
				}
			})
		}
		does := func(do func(), wait time.Duration) {
			do()
			f.fileEvents <- struct{}{}
			idle(wait)
		}
		f.expect("no MicroShift", report.NoVIPs, "/ms does not exist or cannot be read")
		expectEnsured("no MicroShift", "[]")
		does(func() { must(t, os.MkdirAll(filepath.Join(f.dir, "ms", "config.d"), 0o700)) }, time.Second)
		f.expect("no files", report.NotRequired,
			"MicroShift's router serves port 80 of 192.0.2.9, according to its configuration")
		expectEnsured("no files", "[10.44.0.0]")
		does(func() { f.write("ms/config.d/10.yaml", "ingress: {listenAddress: [192.0.2.10]}\n") }, time.Second)
		f.expect("listens elsewhere", report.Serving, "holds 192.0.2.9")
		f.withLock(func() {
			if !f.observed.OneHost {
				t.Errorf("other hosts are stated to hold the addresses: %+v", f.observed)
			}
		})
		does(func() { f.write("ms/config.yaml", "network: {serviceNetwork: [172.30.0.0/16]}\n") }, time.Second)
		expectEnsured("another network", "[172.31.0.0]")
		does(func() {
			f.write("ms/config.d/15.yaml",
				"network: {serviceNetwork: [172.30.0.0/16, fd02::/112], clusterNetwork: [10.42.0.0/16, fd01::/48]}\n")
		}, time.Second)
		expectEnsured("a dual stack", "[]")
		f.expect("a dual stack", report.Serving,
			"the internal address of MicroShift's API server is not added to lo: MicroShift would use it as the node "+
				"address: set node.nodeIPv6")
		does(func() { f.write("ms/config.d/16.yaml", "node: {nodeIPv6: '2001:db8::9'}\n") }, time.Second)
		expectEnsured("the node's given", "[172.31.0.0 fd02::1:0]")
		does(func() { f.write("ms/config.d/20.yaml", "ingress: {ports: {http: nothing}}\n") }, time.Second)
		f.expect("broken", report.Serving, "last good configuration stays in use")
		f.withLock(func() { f.loopbackErr = errors.New("somebody has it") })
		does(func() { f.write("ms/config.d/20.yaml", "apiServer: {advertiseAddress: 192.0.2.10}\n") }, time.Second)
		f.expect("collision", report.Serving,
			"correct node.nodeIP or node.nodeIPv6 in MicroShift's configuration, or add that address to a link; somebody has it")
		expectEnsured("forced", "[]")
		f.withLock(func() { f.loopbackErr = nil })
		idle(nodeAddressRetry)
		if c := f.tracker.Report(report.Table{}).Condition(); strings.Contains(c.Message, "somebody has it") {
			t.Errorf("a failure on lo is not retried: %s", c.Message)
		}
		does(func() { must(t, os.RemoveAll(filepath.Join(f.dir, "ms"))) }, 3*time.Second)
		f.expect("gone", report.NoVIPs, "/ms does not exist or cannot be read")
	})
}

// TestNodeAddressMissing: while the link of the default route has no address, no address of another
// link is used.
func TestNodeAddressMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(f *fixture) {
			f.microShift("ms", "")
			f.held = parsePrefixes("198.51.100.9/24 eth1")
			must(t, os.Mkdir(filepath.Join(f.dir, "ms"), 0o700))
			f.defaultLinks = []uint32{2}
		})
		defer f.stop()
		idle(time.Second)
		f.expect("no address", report.NoVIPs, "set node.nodeIP in")
		f.withLock(func() { f.held = append(f.held, parsePrefixes("192.0.2.9/24 eth0")...) })
		f.addressEvents <- struct{}{}
		idle(time.Second)
		f.expect("it comes", report.NotRequired, "port 80 of 192.0.2.9")
		f.withLock(func() { f.held = f.held[:1] })
		f.addressEvents <- struct{}{}
		idle(time.Second)
		f.expect("it goes", report.NoVIPs, "set node.nodeIP in")
		f.withLock(func() { f.defaultLinks = nil })
		idle(nodeAddressRetry)
		f.expect("no default route", report.NotRequired, "port 80 of 198.51.100.9")
	})
}

// TestMicroShiftNewer: files that are newer than the running MicroShift are used and named. The
// internal address that it uses stays on lo until it is restarted.
func TestMicroShiftNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const past, future = -1000 * 24 * time.Hour, 50 * 365 * 24 * time.Hour // from the time of a synctest bubble
		var link string
		starts := func(age time.Duration) {
			t.Helper()
			_ = os.Remove(link)
			must(t, os.Symlink("1", link))
			at := unix.NsecToTimespec(time.Now().Add(age).UnixNano())
			must(t, unix.UtimesNanoAt(unix.AT_FDCWD, link, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW))
		}
		f := startLoop(t, func(f *fixture) {
			link = filepath.Join(f.dir, "invocation:microshift.service")
			f.microShift("ms", ", manageAdvertiseAddress: true")
			f.held = parsePrefixes("192.0.2.9/24 eth0", "10.44.0.0/32 lo")
			f.write("ms/config.yaml", "node: {nodeIP: 192.0.2.9}\n")
			starts(future)
		})
		defer f.stop()
		step := func(when string, do func(), reason report.Reason, newer bool, lo string) {
			t.Helper()
			do()
			f.fileEvents <- struct{}{}
			idle(time.Second)
			c := f.tracker.Report(report.Table{}).Condition()
			if c.Reason != reason || strings.Contains(c.Message, "since MicroShift started: run systemctl restart microshift") != newer {
				t.Errorf("%s: %s: %s", when, c.Reason, c.Message)
			}
			f.withLock(func() {
				if got := fmt.Sprint(f.loopbackWant, f.loopbackRetain); got != lo {
					t.Errorf("%s: lo: %s, want %s", when, got, lo)
				}
			})
		}
		const elsewhere = "node: {nodeIP: 192.0.2.9}\ningress: {ports: {http: 8080}}\nnetwork: {serviceNetwork: " +
			"[10.96.0.0/16]}\n"
		edit := func(text string) func() { return func() { starts(past); f.write("ms/config.yaml", text) } }
		step("at first", func() {}, report.NotRequired, false, "[10.44.0.0] []")
		step("edited", edit(elsewhere), report.Serving, true, "[10.97.0.0] [10.44.0.0]")
		step("started", func() { starts(future) }, report.Serving, false, "[10.97.0.0] []")
		step("forced and started", func() {
			edit("node: {nodeIP: 192.0.2.9}\napiServer: {advertiseAddress: 10.97.0.0}\n")()
			starts(future)
		}, report.NotRequired, false, "[] [10.97.0.0]")
		step("stopped", func() { edit(elsewhere)(); _ = os.Remove(link) }, report.Serving, false, "[10.97.0.0] []")
	})
}
