// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// stepTimeout limits each step on a busy machine. The tests do not depend on it.
const stepTimeout = 30 * time.Second

// serve listens in the namespace and sends each client the name of the server and the
// connection's addresses.
func serve(t *testing.T, n *nstest.Netns, name, address string) {
	t.Helper()
	var (
		l   net.Listener
		err error
	)
	// A client of an earlier test may still have this port as its source port.
	for end := time.Now().Add(stepTimeout); ; <-time.After(10 * time.Millisecond) {
		n.In(func() { l, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", address) })
		if !errors.Is(err, unix.EADDRINUSE) || time.Now().After(end) {
			break
		}
	}
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(stepTimeout))
			_, _ = fmt.Fprintf(c, "%s %s %s\n", name, unmapped(c.LocalAddr()), unmapped(c.RemoteAddr()))
			_ = c.Close()
		}
	}()
}

func unmapped(a net.Addr) netip.AddrPort {
	ap := netip.MustParseAddrPort(a.String())
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// response is what a client observed.
type response struct {
	Server string // the server's name, or "refused" or "unreachable"
	Local  netip.AddrPort
	Peer   bool // the server saw the client's real address (see TestSamePortTwice for the port)
}

// connectTo connects from the namespace and reads the server's line.
func connectTo(t *testing.T, n *nstest.Netns, from, to string) response {
	t.Helper()
	dialer := &net.Dialer{Timeout: stepTimeout}
	if from != "" {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))
	}
	var (
		c   net.Conn
		err error
	)
	n.In(func() { c, err = dialer.DialContext(t.Context(), "tcp", to) })
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return response{Server: "refused"}
	case errors.Is(err, unix.EHOSTUNREACH):
		return response{Server: "unreachable"}
	case err != nil:
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if tcp, ok := c.(*net.TCPConn); ok && from != "" {
		// The port must be free at once: without the peer's namespace, the kernel would wait
		// for the last acknowledgement while the next test must listen.
		_ = tcp.SetLinger(0)
	}
	_ = c.SetDeadline(time.Now().Add(stepTimeout))
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatalf("read from %s: %v", to, err)
	}
	f := strings.Fields(line)
	peer := netip.MustParseAddrPort(f[2])
	return response{
		Server: f[0], Local: netip.MustParseAddrPort(f[1]),
		Peer: peer.Addr() == unmapped(c.LocalAddr()).Addr(),
	}
}

// lan is the host with the VIPs (where the test runs) and a client on the same link.
type lan struct{ client *nstest.Netns }

const (
	vip4, vip6   = "192.0.2.5", "2001:db8::5"
	host4, host6 = "192.0.2.1", "2001:db8::1"
	peer4, peer6 = "192.0.2.100", "2001:db8::100"
)

func newLAN(t *testing.T) *lan {
	t.Helper()
	n := &lan{client: newNeighbour(t)}
	for _, vip := range []string{vip4 + "/32", vip6 + "/128"} {
		nstest.AddAddress(t, "v0", vip)
	}
	for address, name := range map[string]string{":80": "router", ":6443": "apiserver", ":9445": "lb", ":8888": "proxy"} {
		serve(t, nil, name, address)
	}
	return n
}

// newNeighbour returns a host on the same link that serves port 80.
func newNeighbour(t *testing.T) *nstest.Netns {
	t.Helper()
	nstest.Require(t)
	n := nstest.NewNetns(t)
	veth(t, n, "v0", "v1", []string{host4 + "/24", host6 + "/64"}, []string{peer4 + "/24", peer6 + "/64"})
	serve(t, n, "elsewhere", ":80")
	return n
}

func addAddr(prefix, dev string) []string {
	args := []string{"addr", "add", prefix, "dev", dev}
	if strings.Contains(prefix, ":") {
		args = append(args, "nodad")
	}
	return args
}

// veth connects the host with a namespace.
func veth(t *testing.T, n *nstest.Netns, here, there string, hereAddrs, thereAddrs []string) {
	t.Helper()
	nstest.Run(t, "ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", n.Path())
	t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "ip", "link", "del", here).Run() })
	nstest.Run(t, "ip", "link", "set", here, "up")
	n.Run(t, "ip", "link", "set", there, "up")
	for _, a := range hereAddrs {
		nstest.AddAddress(t, here, a)
	}
	for _, a := range thereAddrs {
		n.Run(t, append([]string{"ip"}, addAddr(a, there)...)...)
	}
}

// connection is one connection and its expected response.
type connection struct {
	name string
	from *nstest.Netns // nil: the host itself
	to   string
	want response
}

func addrPort(ip string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(ip), port)
}

func hostPort(ip string, port uint16) string { return addrPort(ip, port).String() }

// proxiedConnections are the connections that the table redirects to the proxy or rejects.
func (n *lan) proxiedConnections() []connection {
	var list []connection
	for _, origin := range []struct {
		name string
		ns   *nstest.Netns
	}{{"client", n.client}, {"host itself", nil}} {
		for _, vip := range []string{vip4, vip6} {
			list = append(list,
				connection{origin.name + " to VIP:80", origin.ns, hostPort(vip, 80), response{"proxy", addrPort(vip, 8888), true}},
				connection{origin.name + " to VIP:8888", origin.ns, hostPort(vip, 8888), response{Server: "refused"}},
			)
		}
		for _, host := range []string{host4, host6} {
			list = append(list, connection{
				origin.name + " to host:8888", origin.ns, hostPort(host, 8888),
				response{Server: "refused"},
			})
		}
	}
	return list
}

// unaffectedConnections are connections that the table must not affect.
func (n *lan) unaffectedConnections() []connection {
	var list []connection
	for _, vip := range []string{vip4, vip6} {
		list = append(list,
			connection{"client to VIP:6443", n.client, hostPort(vip, 6443), response{"apiserver", addrPort(vip, 6443), true}},
			connection{"host itself to VIP:6443", nil, hostPort(vip, 6443), response{"apiserver", addrPort(vip, 6443), true}},
		)
	}
	for _, host := range []string{host4, host6} {
		list = append(list, connection{
			"client to host:80", n.client, hostPort(host, 80),
			response{"router", addrPort(host, 80), true},
		})
	}
	return append(list, n.outgoingConnections()...)
}

// outgoingConnections are connections of the host to port 80 of other hosts.
func (n *lan) outgoingConnections() []connection {
	return []connection{
		{"host to another host:80", nil, hostPort(peer4, 80), response{"elsewhere", addrPort(peer4, 80), true}},
		{"host to another host:80, IPv6", nil, hostPort(peer6, 80), response{"elsewhere", addrPort(peer6, 80), true}},
		{"host to its own loopback:80", nil, "127.0.0.1:80", response{"router", addrPort("127.0.0.1", 80), true}},
	}
}

func checkConnections(t *testing.T, probes []connection) {
	t.Helper()
	for _, p := range probes {
		got := connectTo(t, p.from, "", p.to)
		if diff := cmp.Diff(p.want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", p.name, p.to, diff)
		}
	}
}

func TestTraffic(t *testing.T) {
	n := newLAN(t)
	c := openConn(t)
	vips := ruleset.New(8888, parseAddrs(vip4, vip6))

	apply(t, c, vips)
	checkConnections(t, n.proxiedConnections())
	checkConnections(t, n.unaffectedConnections())

	s, err := c.State()
	must(t, err)
	for _, counter := range s.Counters {
		// One connection per family and origin. A rejected connection can be retried.
		exact := strings.Contains(counter.Rule, "dnat")
		if counter.Rule == "" || counter.Packets == 0 || (exact && counter.Packets != 1) {
			t.Errorf("counter %+v, want one connection per family and origin", counter)
		}
	}

	apply(t, c, ruleset.New(8888, parseAddrs(vip6)))
	checkConnections(t, []connection{
		{"VIP that is no longer ours", n.client, hostPort(vip4, 80), response{"router", addrPort(vip4, 80), true}},
		{"VIP that still is", n.client, hostPort(vip6, 80), response{"proxy", addrPort(vip6, 8888), true}},
	})
}

// TestTranslationOfOthers: a connection that another program translates is not rejected, such as
// to a pod with the same hostPort.
func TestTranslationOfOthers(t *testing.T) {
	n := newLAN(t)
	loadRuleset(t, "table inet hostport { chain c { type nat hook prerouting priority -100; "+
		"fib daddr type local tcp dport 8888 dnat to :80; }; }")
	t.Cleanup(func() { flushRuleset(t) })
	apply(t, openConn(t), ruleset.New(8888, parseAddrs(vip4, vip6)))
	for _, host := range []string{host4, host6} {
		checkConnections(t, []connection{{
			"client to host:8888", n.client, hostPort(host, 8888), response{"router", addrPort(host, 80), true},
		}})
	}
}

// TestSamePortTwice: a client connects to the proxy's port directly and then to port 80 from
// the same source port. The kernel would see one connection, so it gives the second one
// another source port (get_unique_tuple of nf_nat_core.c). The connection still arrives with
// the real address.
func TestSamePortTwice(t *testing.T) {
	n := newLAN(t)
	apply(t, openConn(t), ruleset.New(8888, parseAddrs(vip4, vip6)))
	for _, vip := range []string{vip4, vip6} {
		from := hostPort(vip, 28888)
		if got := connectTo(t, nil, from, hostPort(vip, 8888)); got.Server != "refused" {
			t.Errorf("direct from %s: %+v, want refused", from, got)
		}
		want := response{"proxy", addrPort(vip, 8888), true}
		if got := connectTo(t, nil, from, hostPort(vip, 80)); got != want {
			t.Errorf("redirected: %+v, want %+v", got, want)
		}
	}
	checkConnections(t, n.outgoingConnections())
}

// TestSourcePortOfTheProxy: a connection of the host with the proxy's port as its source port
// works.
func TestSourcePortOfTheProxy(t *testing.T) {
	newNeighbour(t)
	apply(t, openConn(t), ruleset.New(8888, parseAddrs(vip4, vip6)))
	for from, to := range map[string]string{host4: peer4, host6: peer6} {
		if got := connectTo(t, nil, hostPort(from, 8888), hostPort(to, 80)); got.Server != "elsewhere" {
			t.Errorf("%s:8888 to %s:80: %+v", from, to, got)
		}
	}
}

// TestStaleElement: an element that remains after its VIP moved redirects neither packets of
// the host nor forwarded ones.
func TestStaleElement(t *testing.T) {
	n := newLAN(t)
	apply(t, openConn(t), ruleset.New(8888, parseAddrs(vip4, vip6, "198.51.100.9", "2001:db8:f::9")))

	t.Run("the VIP moved away", func(t *testing.T) {
		checkConnections(t, n.proxiedConnections()[:1])
		for _, vip := range []string{vip4 + "/32", vip6 + "/128"} {
			nstest.Run(t, "ip", "addr", "del", vip, "dev", "v0")
			n.client.Run(t, append([]string{"ip"}, addAddr(vip, "v1")...)...)
		}
		checkConnections(t, []connection{
			{"host to the VIP elsewhere", nil, hostPort(vip4, 80), response{"elsewhere", addrPort(vip4, 80), true}},
			{"host to the VIP elsewhere, IPv6", nil, hostPort(vip6, 80), response{"elsewhere", addrPort(vip6, 80), true}},
		})
	})
	t.Run("the host forwards", func(t *testing.T) {
		far := nstest.NewNetns(t)
		veth(t, far, "f0", "f1", []string{"198.51.100.1/24", "2001:db8:f::1/64"},
			[]string{"198.51.100.9/24", "2001:db8:f::9/64"})
		far.Run(t, "ip", "route", "add", "default", "via", "198.51.100.1")
		far.Run(t, "ip", "route", "add", "default", "via", "2001:db8:f::1")
		n.client.Run(t, "ip", "route", "add", "198.51.100.0/24", "via", host4)
		n.client.Run(t, "ip", "route", "add", "2001:db8:f::/64", "via", host6)
		for _, key := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
			nstest.Run(t, "sysctl", "-qw", key+"=1")
			t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "sysctl", "-qw", key+"=0").Run() })
		}
		serve(t, far, "far", ":80")
		checkConnections(t, []connection{
			{"client through the host", n.client, "198.51.100.9:80", response{"far", addrPort("198.51.100.9", 80), true}},
			{"client through the host, IPv6", n.client, "[2001:db8:f::9]:80", response{
				"far", addrPort("2001:db8:f::9", 80),
				true,
			}},
		})
	})
}

// TestFirewalld: the real firewalld with its real rules accepts redirected connections and
// does not change our table when it reloads, and its own rules stay unchanged.
func TestFirewalld(t *testing.T) {
	n := newLAN(t)
	c := openConn(t)
	apply(t, c, ruleset.New(8888, parseAddrs(vip4, vip6)))
	firewallCmd := startFirewalld(t)

	// Its default zone rejects unknown traffic, which shows that it is active.
	if got := connectTo(t, n.client, "", hostPort(vip4, 6443)); got.Server != "unreachable" && got.Server != "refused" {
		t.Fatalf("firewalld refuses nothing: %+v", got)
	}
	verify(t, c)
	before := listOtherTables(t)
	if !strings.Contains(before, "table inet firewalld") {
		t.Fatal("firewalld has no table")
	}
	proxied := n.proxiedConnections()
	checkConnections(t, proxied)
	checkConnections(t, n.outgoingConnections())

	apply(t, c, ruleset.New(8888, parseAddrs(vip6)))
	apply(t, c, ruleset.New(8889, parseAddrs(vip6)))
	apply(t, c, ruleset.New(8888, parseAddrs(vip4, vip6)))
	expectUnchanged(t, "firewalld's tables", before, listOtherTables(t))

	firewallCmd("--reload")
	firewallCmd("--complete-reload")
	verify(t, c)
	checkConnections(t, proxied)

	// Install the table while firewalld is running.
	must(t, c.Remove())
	apply(t, c, ruleset.New(8888, parseAddrs(vip4, vip6)))
	checkConnections(t, proxied)
}

const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/>
<allow receive_type="method_call"/><allow receive_type="method_return"/>
<allow receive_type="signal"/><allow receive_type="error"/></policy></busconfig>`

// startFirewalld starts firewalld on a bus of its own with a copy of the system's
// configuration, and returns firewall-cmd.
func startFirewalld(t *testing.T) func(args ...string) {
	t.Helper()
	dir := t.TempDir()
	bus := filepath.Join(dir, "bus")
	must(t, os.WriteFile(filepath.Join(dir, "bus.conf"), fmt.Appendf(nil, busConfig, bus), 0o600))
	must(t, os.CopyFS(filepath.Join(dir, "etc"), os.DirFS("/etc/firewalld")))
	env := append(os.Environ(), "DBUS_SYSTEM_BUS_ADDRESS=unix:path="+bus)

	daemon := exec.CommandContext(context.Background(), "dbus-daemon",
		"--config-file="+filepath.Join(dir, "bus.conf"), "--nofork", "--nopidfile", "--print-address")
	ready, err := daemon.StdoutPipe()
	must(t, err)
	startBackground(t, daemon)
	if _, err := bufio.NewReader(ready).ReadString('\n'); err != nil {
		t.Fatalf("dbus-daemon: %v", err)
	}

	firewalld := exec.CommandContext(context.Background(), "firewalld", "--nofork", "--nopid",
		"--system-config", filepath.Join(dir, "etc"), "--log-file", filepath.Join(dir, "log"))
	firewalld.Env = env
	startBackground(t, firewalld)
	t.Cleanup(func() { flushRuleset(t) }) // before firewalld is killed, so that the next test starts without its rules

	ctx, cancel := context.WithTimeout(t.Context(), 2*stepTimeout)
	t.Cleanup(cancel)
	command := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "firewall-cmd", args...)
		cmd.Env = env
		return cmd.CombinedOutput()
	}
	nstest.Await(t, "firewalld answers", func() bool {
		_, err := command("--state")
		return err == nil
	})
	return func(args ...string) {
		t.Helper()
		if out, err := command(args...); err != nil {
			t.Fatalf("firewall-cmd %v: %v: %s", args, err, out)
		}
	}
}

// startBackground starts a process that is killed at the end of the test.
func startBackground(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}
