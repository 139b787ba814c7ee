// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/network"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// traceUntilKilled makes the test binary trace until it is killed.
const traceUntilKilled = "HTTP01_TRACE_UNTIL_KILLED"

// TestMain is the prober process as well.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == child.Prober {
		conn, err := child.Connect()
		if err == nil {
			err = network.RunConfined(context.Background(), conn)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(traceUntilKilled) != "" {
		t, err := Start(Options{Held: []netip.Addr{vip4}, Port: internalPort}, noReader{})
		fmt.Println(t != nil, err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	nstest.Main(m)
}

// lateReader is a prober process that does not run for a while after it read events.
type lateReader struct{ Reader }

func (l lateReader) ReadTrace(ctx context.Context, socket int, wait time.Duration) (*protocol.TraceResult, error) {
	found, err := l.Reader.ReadTrace(ctx, socket, wait)
	if err == nil && len(found.Records) > 0 {
		select {
		case <-time.After(2 * pollTime):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return found, err
}

type noReader struct{}

func (noReader) ReadTrace(context.Context, int, time.Duration) (*protocol.TraceResult, error) {
	return nil, io.EOF
}

// The address plan of the cases.
var (
	vip4, vip6       = netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5")
	client4, client6 = netip.MustParseAddr("192.0.2.100"), netip.MustParseAddr("2001:db8::100")
)

const internalPort = 8888

// serviceTable has the rules of the service.
const serviceTable = `table inet http01-proxyd {
	chain prerouting { type nat hook prerouting priority -110;
		ip daddr 192.0.2.5 tcp dport 80 fib daddr type local counter dnat to :8888;
		ip6 daddr 2001:db8::5 tcp dport 80 fib daddr type local counter dnat to :8888; }
	chain output { type nat hook output priority -110;
		ip daddr 192.0.2.5 tcp dport 80 fib daddr type local counter dnat to :8888;
		ip6 daddr 2001:db8::5 tcp dport 80 fib daddr type local counter dnat to :8888; }
	chain reject-prerouting { type nat hook prerouting priority -90;
		tcp dport 8888 fib daddr type local counter reject with tcp reset; }
	chain reject-output { type nat hook output priority -90;
		tcp dport 8888 fib daddr type local counter reject with tcp reset; }
}
`

// testHost is this namespace as the holder of the VIPs, and another one with a client.
type testHost struct {
	client *nstest.Netns
	prober *prober.Client
	reader Reader
}

func newTestHost(t testing.TB) *testHost {
	t.Helper()
	nstest.Require(t)
	h := &testHost{client: nstest.NewNetns(t)}
	nstest.Run(t, "ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", h.client.Path())
	undo(t, "ip", "link", "del", "near")
	nstest.Run(t, "ip", "link", "set", "near", "up")
	h.client.Run(t, "ip", "link", "set", "far", "up")
	for _, a := range []string{"192.0.2.10/24", "192.0.2.5/32", "2001:db8::10/64", "2001:db8::5/128"} {
		nstest.Run(t, "ip", "address", "add", a, "dev", "near", "nodad")
	}
	for _, a := range []string{"192.0.2.100/24", "2001:db8::100/64"} {
		h.client.Run(t, "ip", "address", "add", a, "dev", "far", "nodad")
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf(":%d", internalPort))
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_ = c.Close()
		}
	}()
	h.prober, err = prober.Start()
	must(t, err)
	t.Cleanup(h.prober.Close)
	h.reader = h.prober
	return h
}

// load loads a ruleset until the test ends.
func load(t testing.TB, text string) {
	t.Helper()
	nstest.RunWithInput(t, text, "nft", "-f", "-")
	undo(t, "nft", "flush", "ruleset")
}

// undo runs a command when the test ends.
func undo(t testing.TB, name string, args ...string) {
	t.Helper()
	t.Cleanup(func() {
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Errorf("%s %v: %v: %s", name, args, err, out)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// request requests a VIP. The result is answered, refused or timed out.
func request(n *nstest.Netns, vip netip.Addr) (result string) {
	n.In(func() {
		conn, err := (&net.Dialer{Timeout: time.Second}).Dial("tcp", netip.AddrPortFrom(vip, webPort).String())
		if err != nil {
			result = "refused"
			if errors.Is(err, os.ErrDeadlineExceeded) || strings.Contains(err.Error(), "timeout") {
				result = "timed out"
			}
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		line, _ := bufio.NewReader(conn).ReadString('\n')
		result = "timed out"
		if strings.HasPrefix(line, "HTTP/1.1 400") {
			result = "answered"
		}
	})
	return result
}

// collect returns the packets of a trace that are complete shortly after act.
func (h *testHost) collect(t *testing.T, o Options, act func()) (all []report.TracedPacket) {
	t.Helper()
	o.Port = cmp.Or(o.Port, internalPort)
	trace, err := Start(o, h.reader)
	must(t, err)
	defer func() { must(t, trace.Close()) }()
	act()
	for empty := 0; ; {
		ctx, cancel := context.WithTimeout(t.Context(), 3*settleTime)
		found, err := trace.Next(ctx)
		cancel()
		must(t, err)
		if len(found) == 0 {
			if empty++; len(all) == 0 && empty < 4 {
				continue // on a busy machine, the first events come late
			}
			if trace.Lost() > 0 {
				t.Errorf("the kernel dropped events %d times", trace.Lost())
			}
			return all
		}
		all = append(all, found...)
	}
}

// TestCases: a real packet, and the rule that decided according to the kernel.
func TestCases(t *testing.T) {
	h := newTestHost(t)
	for _, tt := range []struct {
		file, text string
		v4, v6     string // the result of a client
		end        report.TraceEnd
		reply      bool   // the reply shows it
		decides    string // chain and rule; of IPv4 unless v4 is answered
	}{
		{text: "", v4: "answered", v6: "answered"},
		{
			file: "ct-state-before-conntrack.nft", v4: "timed out", v6: "timed out", end: report.TraceDropped,
			decides: "inet raw pre: tcp dport 80 ct state invalid drop",
		},
		{
			file: "notrack.nft", v4: "refused", v6: "answered", end: report.TraceDelivered,
			decides: "ip raw prerouting: tcp dport 80 notrack",
		},
		{
			file: "client-filter-before-redirect.nft", v4: "timed out", v6: "timed out", end: report.TraceDropped,
			decides: "inet geo-filter filter-chain: its policy is drop",
		},
		{
			file: "client-filter-before-redirect-8888-accepted.nft", v4: "timed out", v6: "timed out", end: report.TraceDropped,
			decides: "inet geo-filter filter-chain: its policy is drop",
		},
		{
			file: "policy-decides.nft", v4: "timed out", v6: "timed out", end: report.TraceDropped,
			decides: "inet filter input: its policy is drop",
		},
		{
			file: "reply-dropped-in-output.nft", v4: "timed out", v6: "timed out", end: report.TraceDropped, reply: true,
			decides: "inet filter output: its policy is drop",
		},
		{
			file: "reply-dropped-in-postrouting.nft", v4: "timed out", v6: "timed out", end: report.TraceDropped, reply: true,
			decides: "inet filter post: its policy is drop",
		},
		{file: "iptables-reject.ipt", v4: "refused", v6: "answered", end: report.TraceDropped, decides: "ip filter INPUT: "},
		{file: "harmless-loopback-antispoof.nft", v4: "answered", v6: "answered"},
		{file: "harmless-fib-rpfilter.nft", v4: "answered", v6: "answered"},
		{file: "harmless-iptables-multiport.ipt", v4: "answered", v6: "answered"},
		{file: "harmless-firewalld.nft", v4: "answered", v6: "answered"},
		{file: "harmless-docker.ipt", v4: "answered", v6: "answered"},
		{file: "harmless-podman.nft", v4: "answered", v6: "answered"},
		{file: "harmless-queue-bypass.ipt", v4: "answered", v6: "answered"},
		{
			text: `table netdev x { chain y { type filter hook ingress device "near" priority -500; tcp dport 80 drop; }; }`,
			v4:   "timed out", v6: "timed out", end: report.TraceDropped, decides: "netdev x y: tcp dport 80 drop",
		},
		{
			text: `table inet x { chain y { type filter hook ingress device "near" priority -500; tcp dport 80 drop; }; }`,
			v4:   "timed out", v6: "timed out", end: report.TraceDropped, decides: "inet x y: tcp dport 80 drop",
		},
		{
			text: `table netdev x { chain y { type filter hook egress device "near" priority 0; tcp sport 80 drop; }; }`,
			v4:   "timed out", v6: "timed out", end: report.TraceDropped, reply: true, decides: "netdev x y: tcp sport 80 drop",
		},
		{
			text: `table inet x { chain y { type filter hook input priority 0; jump z; }; chain z { tcp dport 8888 drop; }; }`,
			v4:   "timed out", v6: "timed out", end: report.TraceDropped, decides: "inet x z: tcp dport 8888 drop",
		},
		{
			text: `table ip x { chain y { type nat hook prerouting priority -150; tcp dport 80 dnat to :9445; }; }`,
			v4:   "refused", v6: "answered", end: report.TraceDelivered, decides: "ip x y: tcp dport 80 dnat to :9445",
		},
		{
			text: `table ip x { chain y { type nat hook prerouting priority -150; tcp dport 80 dnat to 198.51.100.9:80; }; }`,
			v4:   "timed out", v6: "answered", decides: "ip x y: tcp dport 80 dnat to 198.51.100.9:80", end: "lost|forwarded",
		},
	} {
		name := tt.file + tt.text
		t.Run(name, func(t *testing.T) {
			tool, text := []string{"nft", "-f", "-"}, tt.text
			if tt.file != "" {
				content, err := os.ReadFile(filepath.Join("testdata", "firewall", tt.file))
				must(t, err)
				if text = string(content); strings.HasSuffix(tt.file, ".ipt") {
					tool = []string{"iptables-nft-restore"}
				}
			}
			load(t, serviceTable)
			nstest.RunWithInput(t, text, tool[0], tool[1:]...)
			var v4, v6 string
			packets := h.collect(t, Options{Held: []netip.Addr{vip4, vip6}},
				func() { v4, v6 = request(h.client, vip4), request(h.client, vip6) })
			if v4 != tt.v4 || v6 != tt.v6 {
				t.Errorf("IPv4 %s, want %s; IPv6 %s, want %s", v4, tt.v4, v6, tt.v6)
			}
			vip := vip4
			if tt.v4 == "answered" {
				vip = vip6
			}
			found := false
			for _, p := range packets {
				step, _ := Deciding(p)
				isObstacle := p.End == report.TraceDropped || p.End == report.TraceLost || !p.Reply &&
					(p.TranslatedTo == 0 || p.TranslatedTo == 9445)
				if tt.end == "" && isObstacle {
					t.Errorf("an obstacle: %s %s", p.Message, ChainName(step)+": "+RuleText(step))
				}
				found = found || p.VIP.Addr() == vip && p.Reply == tt.reply && strings.Contains(string(tt.end), string(p.End)) &&
					strings.HasPrefix(ChainName(step)+": "+RuleText(step), tt.decides)
			}
			if !found && tt.end != "" || len(packets) == 0 {
				for _, p := range packets {
					step, _ := Deciding(p)
					t.Logf("%v %v reply=%v %s: %s; %s: %s\n%+v", p.Client, p.VIP, p.Reply, p.End, p.Message, ChainName(step),
						RuleText(step), p.Steps)
				}
				t.Errorf("no packet to %v with the end %s, which %s decides", vip, tt.end, tt.decides)
			}
			left := nstest.Run(t, "nft", "list", "tables")
			if strings.Contains(left, tablePrefix) {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

// TestQueue: a rule passes packets to a program that does not run.
func TestQueue(t *testing.T) {
	h := newTestHost(t)
	load(t, serviceTable)
	nstest.Run(t, "iptables-nft", "-A", "INPUT", "-p", "tcp", "--dport", "8888", "-j", "NFQUEUE", "--queue-num", "1")
	packets := h.collect(t, Options{Held: []netip.Addr{vip4}}, func() { request(h.client, vip4) })
	const want = "passed to another program in chain ip filter INPUT, which has not returned it: tcp dport 8888 " +
		"counter queue num 1 (handle "
	if len(packets) == 0 || packets[0].End != report.TraceUnknown || !strings.HasPrefix(packets[0].Message, want) {
		t.Errorf("%+v", packets)
	}
}

// TestHealthy: the path of a request and its reply, from the device to the socket and back.
func TestHealthy(t *testing.T) {
	h := newTestHost(t)
	load(t, serviceTable)
	packets := h.collect(t, Options{Held: []netip.Addr{vip4}}, func() { request(h.client, vip4) })
	var syn, reply *report.TracedPacket
	for i, p := range packets {
		switch p.Flags {
		case "SYN":
			syn = &packets[i]
		case "SYN-ACK":
			reply = &packets[i]
		}
	}
	if syn == nil || reply == nil {
		t.Fatalf("%+v", packets)
	}
	var steps []string
	for _, s := range append(syn.Steps, reply.Steps...) {
		steps = append(steps, fmt.Sprintf("%s %s %s %d", s.Hook, s.Device, s.Verdict, s.Port))
	}
	want := []string{
		"ingress near accept 80", "prerouting near accept 80", "prerouting near accept 80", "input near accept 8888",
		"input near accept 8888",
		"output near accept 8888", "postrouting near accept 80",
	}
	if diff := gocmp.Diff(want, steps); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if syn.End != report.TraceDelivered || reply.End != report.TraceSent || syn.TranslatedTo != internalPort ||
		syn.Client != reply.Client || syn.Client.Addr() != client4 {
		t.Errorf("%+v\n%+v", syn, reply)
	}
}

// TestBridge: a packet is followed from the port of a bridge, also where bridge netfilter translates
// it before the bridge itself gets it.
func TestBridge(t *testing.T) {
	h := newTestHost(t)
	nstest.Run(t, "ip", "link", "add", "lan", "type", "bridge")
	undo(t, "ip", "link", "del", "lan")
	for _, command := range []string{"address flush dev near", "link set near master lan", "link set lan up"} {
		nstest.Run(t, "ip", strings.Fields(command)...)
	}
	for _, a := range []string{"192.0.2.10/24", "192.0.2.5/32", "2001:db8::10/64", "2001:db8::5/128"} {
		nstest.Run(t, "ip", "address", "add", a, "dev", "lan", "nodad")
	}
	load(t, serviceTable)
	for _, bridgeNetfilter := range []string{"0", "1"} {
		for _, family := range []string{"iptables", "ip6tables"} {
			nstest.Run(t, "sysctl", "-qw", "net.bridge.bridge-nf-call-"+family+"="+bridgeNetfilter)
		}
		for _, vip := range []netip.Addr{vip4, vip6} {
			var result string
			packets := h.collect(t, Options{Held: []netip.Addr{vip4, vip6}}, func() { result = request(h.client, vip) })
			first, replies := packets[0], 0
			for _, p := range packets {
				if p.Failed() {
					t.Errorf("bridge netfilter %s, %v: %+v", bridgeNetfilter, vip, p)
				}
				if p.Flags == "SYN-ACK" {
					replies++
				}
			}
			if result != "answered" || first.Flags != "SYN" || first.Steps[0].Device != "near" ||
				first.TranslatedTo != internalPort || replies != 1 {
				t.Errorf("bridge netfilter %s, %v: %s, %d SYN-ACKs, %+v", bridgeNetfilter, vip, result, replies, first)
			}
		}
	}
}

// TestLoopbackVIP: packets for a VIP on lo, as kube-vip with BGP has it, arrive by the uplinks.
func TestLoopbackVIP(t *testing.T) {
	h := newTestHost(t)
	nstest.Run(t, "ip", "address", "del", "192.0.2.5/32", "dev", "near")
	nstest.Run(t, "ip", "address", "add", "192.0.2.5/32", "dev", "lo")
	undo(t, "ip", "address", "del", "192.0.2.5/32", "dev", "lo")
	load(t, serviceTable)
	if result := request(h.client, vip4); result != "answered" {
		t.Fatal(result)
	}
	nstest.RunWithInput(t,
		`table netdev x { chain y { type filter hook ingress device "near" priority -500; tcp dport 80 drop; }; }`, "nft",
		"-f", "-")
	packets := h.collect(t, Options{Held: []netip.Addr{vip4}, Local: true}, func() { request(h.client, vip4) })
	if len(packets) == 0 || packets[0].Local || packets[0].End != report.TraceDropped || packets[0].Steps[1].Table != "x" {
		t.Errorf("%+v", packets)
	}
}

// TestFrom: only packets of one client, of its address family.
func TestFrom(t *testing.T) {
	h := newTestHost(t)
	for _, tt := range []struct {
		from netip.Addr
		want int
	}{{client4, 1}, {netip.MustParseAddr("192.0.2.101"), 0}, {client6, 0}} {
		packets := h.collect(t, Options{Held: []netip.Addr{vip4}, From: tt.from}, func() { request(h.client, vip4) })
		if (len(packets) > 0) != (tt.want > 0) {
			t.Errorf("from %v: %d packets", tt.from, len(packets))
		}
	}
}

// TestLocal: requests of this host itself, to a VIP that it holds and to one that it does not.
func TestLocal(t *testing.T) {
	h := newTestHost(t)
	load(t, serviceTable)
	packets := h.collect(t, Options{Held: []netip.Addr{vip4}, Local: true}, func() { request(nil, vip4) })
	if len(packets) == 0 || !packets[0].Local || packets[0].End != report.TraceDelivered ||
		packets[0].TranslatedTo != internalPort {
		t.Errorf("%+v", packets)
	}
	nstest.RunWithInput(t,
		"table inet x { chain y { type filter hook output priority 0; ip daddr 192.0.2.100 tcp dport 80 drop; }; }", "nft",
		"-f", "-")
	packets = h.collect(t, Options{Standby: []netip.Addr{client4}}, func() { request(nil, client4) })
	if len(packets) == 0 || packets[0].Reply || packets[0].End != report.TraceDropped ||
		packets[0].Steps[len(packets[0].Steps)-1].Rule != "ip daddr 192.0.2.100 tcp dport 80 drop" {
		t.Errorf("%+v", packets)
	}
}

// TestReversePath: a packet that the routing drops is lost, and a counter of the kernel shows why.
func TestReversePath(t *testing.T) {
	h := newTestHost(t)
	load(t, serviceTable)
	request(h.client, vip4) // ARP would not be answered later
	nstest.Run(t, "ip", "link", "add", "other", "type", "veth", "peer", "name", "other2")
	undo(t, "ip", "link", "del", "other")
	nstest.Run(t, "ip", "link", "set", "other", "up")
	nstest.Run(t, "ip", "route", "add", "192.0.2.100/32", "dev", "other")
	nstest.Run(t, "sysctl", "-qw", "net.ipv4.conf.near.rp_filter=1")
	packets := h.collect(t, Options{Held: []netip.Addr{vip4}}, func() { request(h.client, vip4) })
	if len(packets) == 0 || packets[0].End != report.TraceLost || !strings.Contains(packets[0].Message,
		"passed prerouting, never reached input: TcpExtIPReversePathFilter grew by ") {
		t.Errorf("%+v", packets)
	}
}

// TestMartian: a packet with an address of this host as its source is lost.
func TestMartian(t *testing.T) {
	h := newTestHost(t)
	load(t, serviceTable)
	request(h.client, vip4) // ARP
	packets := h.collect(t, Options{Held: []netip.Addr{vip4}}, func() { flood(t, h.client, 10, 1) })
	if len(packets) != 1 || packets[0].End != report.TraceLost || !strings.Contains(packets[0].Message,
		"route in_martian_src grew by ") {
		t.Errorf("%+v", packets)
	}
}

// TestFullQueue: the kernel drops the first packet of a connection when the queue of the listening
// socket is full.
func TestFullQueue(t *testing.T) {
	h := newTestHost(t)
	load(t, strings.ReplaceAll(serviceTable, "8888", "8889"))
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Bind(fd, &unix.SockaddrInet4{Port: 8889}))
	must(t, unix.Listen(fd, 0)) // it accepts one connection
	request(h.client, vip4)
	packets := h.collect(t, Options{Held: []netip.Addr{vip4}, Port: 8889}, func() { request(h.client, vip4) })
	const want = "delivered to port 8889, and the kernel sent no reply: TcpExtListenDrops grew by "
	if len(packets) == 0 || packets[0].End != report.TraceLost || !strings.HasPrefix(packets[0].Message, want) ||
		!strings.Contains(packets[0].Message, "TcpExtListenOverflows grew by ") {
		t.Errorf("%+v", packets)
	}
}

// TestFaults: each fault is an error that names the remediation, and leaves nothing behind.
func TestFaults(t *testing.T) {
	h := newTestHost(t)
	before := nstest.Run(t, "nft", "list", "ruleset")
	for name, tt := range map[string]struct {
		kind  int // of the message that the kernel refuses
		errno unix.Errno
		want  string
	}{
		// nf_tables_newtable of kernels before 5.12: EINVAL or EOPNOTSUPP.
		"no owner flag":       {unix.NFT_MSG_NEWTABLE, unix.EOPNOTSUPP, "the kernel lacks the owner flag"},
		"no netdev tables":    {unix.NFT_MSG_NEWCHAIN, unix.ENOENT, "netdev tables"},
		"no limit":            {unix.NFT_MSG_NEWRULE, unix.ENOENT, "modprobe nf_tables"},
		"not permitted":       {unix.NFT_MSG_NEWTABLE, unix.EPERM, "run it as root"},
		"another error":       {unix.NFT_MSG_NEWTABLE, unix.ENOMEM, "cannot trace packets: "},
		"no netlink at all":   {-1, unix.EPROTONOSUPPORT, "the kernel lacks"},
		"too many open files": {-1, unix.EMFILE, "cannot trace packets: open a netfilter netlink socket: "},
	} {
		_, err := Start(Options{Held: []netip.Addr{vip4}, dial: refuse(tt.kind, tt.errno)}, h.prober)
		if !errors.Is(err, tt.errno) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	withoutCapabilities(func() {
		if _, err := Start(Options{Held: []netip.Addr{vip4}}, h.prober); err == nil || !strings.Contains(err.Error(),
			"run it as root") {
			t.Errorf("without capabilities: %v", err)
		}
	})
	t.Run("without nft", func(t *testing.T) {
		load(t, serviceTable+"table inet x { chain y { type filter hook input priority 0; tcp dport 8888 drop; }; }")
		path := os.Getenv("PATH")
		t.Setenv("PATH", t.TempDir())
		packets := h.collect(t, Options{Held: []netip.Addr{vip4}}, func() { request(h.client, vip4) })
		t.Setenv("PATH", path)
		if len(packets) == 0 || !strings.Contains(packets[0].Message, "the rule with handle ") {
			t.Errorf("%+v", packets)
		}
	})
	t.Run("100,000 rules", func(t *testing.T) {
		rules := strings.Repeat("ip saddr 198.51.100.1 counter drop; ", 100_000)
		load(t, serviceTable+"table inet x { chain y { type filter hook input priority 0; "+rules+"tcp dport 8888 drop; }; }")
		packets := h.collect(t, Options{Held: []netip.Addr{vip4}}, func() { request(h.client, vip4) })
		want := "dropped at port 8888 in chain inet x y: tcp dport 8888 drop (handle "
		begin := time.Now()
		nstest.Run(t, "nft", "-t", "-s", "-a", "list", "ruleset")
		if time.Since(begin) > nftTimeout/2 { // the trace may not have waited for nft on this machine
			want = "dropped at port 8888 in chain inet x y: "
		}
		if len(packets) == 0 || !strings.HasPrefix(packets[0].Message, want) {
			t.Errorf("no %q: %+v", want, packets)
		}
	})
	t.Run("the ruleset changes", func(t *testing.T) {
		load(t, serviceTable)
		packets := h.collect(t, Options{Held: []netip.Addr{vip4}}, func() {
			nstest.RunWithInput(t, "table inet later { chain y { type filter hook input priority 0; tcp dport 8888 drop; }; }",
				"nft", "-f", "-")
			request(h.client, vip4)
		})
		// The packet may have met either ruleset, and handles of tables that are loaded again are not unique.
		const want = "dropped at port 8888 in chain inet later y: the rule with handle "
		if len(packets) == 0 || !strings.HasPrefix(packets[0].Message, want) {
			t.Errorf("%+v", packets)
		}
	})
	t.Run("the ruleset is loaded again", func(t *testing.T) {
		const table = "table inet again { chain y { type filter hook input priority 0; %s; }; }"
		load(t, serviceTable+fmt.Sprintf(table, "tcp dport 22 accept; tcp dport 8888 drop"))
		tr, err := Start(Options{Held: []netip.Addr{vip4}, Port: internalPort}, h.prober)
		must(t, err)
		defer tr.Close()
		next := func() []report.TracedPacket {
			ctx, cancel := context.WithTimeout(t.Context(), 3*settleTime)
			defer cancel()
			packets, err := tr.Next(ctx)
			must(t, err)
			return packets
		}
		expectRule := func(want string) {
			t.Helper()
			for len(next()) > 0 { // also repetitions of an earlier request
			}
			request(h.client, vip4)
			if packets := next(); len(packets) == 0 || !strings.Contains(packets[0].Message, want) {
				t.Errorf("no %q: %+v", want, packets)
			}
		}
		expectRule("in chain inet again y: tcp dport 8888 drop (handle ")
		nstest.RunWithInput(t, "delete table inet again\n"+
			fmt.Sprintf(table, "tcp dport 443 accept; ip saddr 192.0.2.0/24 drop"), "nft", "-f", "-")
		tr.listed = time.Time{} // as if relistTime had passed
		expectRule("in chain inet again y: ip saddr 192.0.2.0/24 drop (handle ")
		nstest.RunWithInput(t, "delete table inet again\n"+fmt.Sprintf(table, "tcp dport 444 accept; tcp dport 8888 drop"),
			"nft", "-f", "-")
		tr.listed = time.Now().Add(time.Hour) // too soon for another list
		expectRule("in chain inet again y: the rule with handle ")
	})
	t.Run("a late prober", func(t *testing.T) {
		load(t, serviceTable)
		late := *h
		late.reader = lateReader{h.prober}
		packets := late.collect(t, Options{Held: []netip.Addr{vip4}}, func() { request(h.client, vip4) })
		if len(packets) == 0 || packets[0].Flags != "SYN" || packets[0].End != report.TraceDelivered {
			t.Errorf("%+v", packets)
		}
	})
	t.Run("a VIP that leaves", func(t *testing.T) {
		load(t, serviceTable)
		request(h.client, vip4) // ARP would not be answered later
		packets := h.collect(t, Options{Held: []netip.Addr{vip4}}, func() {
			nstest.Run(t, "ip", "address", "del", "192.0.2.5/32", "dev", "near")
			request(h.client, vip4)
		})
		nstest.Run(t, "ip", "address", "add", "192.0.2.5/32", "dev", "near")
		if len(packets) == 0 || packets[0].End != report.TraceLost || packets[0].TranslatedTo != 0 {
			t.Errorf("%+v", packets)
		}
	})
	if diff := gocmp.Diff(before, nstest.Run(t, "nft", "list", "ruleset")); diff != "" {
		t.Errorf("left behind (-before +after):\n%s", diff)
	}
}

// refuse opens a connection to a kernel that refuses messages of a kind, or the connection itself.
func refuse(kind int, errno unix.Errno) func() (*nftables.Conn, error) {
	if kind < 0 {
		return func() (*nftables.Conn, error) { return nil, errno }
	}
	return func() (*nftables.Conn, error) {
		return nftables.New(nftables.AsLasting(), nftables.WithTestDial(func(requests []netlink.Message) ([]netlink.Message,
			error,
		) {
			for _, m := range requests {
				if m.Header.Type == netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8|kind) {
					return nltest.Error(int(errno), []netlink.Message{m})
				}
			}
			return nil, io.EOF
		}))
	}
}

// withoutCapabilities runs f on a thread without capabilities, which ends with f.
func withoutCapabilities(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			panic(err)
		}
		f()
	}()
	<-done
}

// TestSocketGrantsNothing: a process without capabilities that has the socket of a trace can
// neither send requests to nftables with it nor receive other events. The kernel examines the
// sender as well as the opener (netlink_net_capable).
func TestSocketGrantsNothing(t *testing.T) {
	nstest.Require(t)
	fd, err := openTraceSocket()
	must(t, err)
	defer unix.Close(fd)
	withoutCapabilities(func() {
		request := netlink.Message{
			Header: netlink.Header{
				Length: 20, Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN,
				Flags: netlink.Request | netlink.Acknowledge,
			},
			Data: make([]byte, 4), // struct nfgenmsg
		}
		text, err := request.MarshalBinary()
		if err == nil {
			err = unix.Sendto(fd, text, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		}
		var answer int32
		if reply := make([]byte, 4096); err == nil {
			_, _, err = unix.Recvfrom(fd, reply, 0)
			answer = int32(binary.NativeEndian.Uint32(reply[unix.SizeofNlMsghdr:]))
		}
		if err != nil || unix.Errno(-answer) != unix.EPERM {
			t.Errorf("request: %v, answer %d", err, answer)
		}
		for _, group := range []int{unix.NFNLGRP_NFTABLES, unix.NFNLGRP_CONNTRACK_NEW} {
			if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group); !errors.Is(err, unix.EPERM) {
				t.Errorf("join group %d: %v", group, err)
			}
		}
	})
}

// TestKilled: the kernel removes the tables of a process that is killed, and two traces do not
// disturb each other.
func TestKilled(t *testing.T) {
	h := newTestHost(t)
	load(t, serviceTable)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), traceUntilKilled+"=1")
	stdin, err := cmd.StdinPipe()
	must(t, err)
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "true <nil>\n" {
		t.Fatalf("%q %v", line, err)
	}
	if packets := h.collect(t, Options{Held: []netip.Addr{vip4}}, func() { request(h.client, vip4) }); len(packets) == 0 ||
		packets[0].End != report.TraceDelivered {
		t.Errorf("beside another trace: %+v", packets)
	}
	if tables := nstest.Run(t, "nft", "list", "tables"); strings.Count(tables, tablePrefix) != 2 {
		t.Errorf("tables of the other trace:\n%s", tables)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	nstest.Await(t, "the removal of the tables",
		func() bool { return !strings.Contains(nstest.Run(t, "nft", "list", "tables"), tablePrefix) })
}
