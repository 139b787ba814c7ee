// SPDX-License-Identifier: Apache-2.0

//go:build linux

package address

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/mdlayher/netlink"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
)

// testTimeout bounds how long a test waits for the kernel on a busy machine.
const testTimeout = 60 * time.Second

func ip(t *testing.T, args ...string) string {
	t.Helper()
	return nstest.Run(t, "ip", args...)
}

// link adds a link with the given ip-link arguments, and deletes it after the test.
func link(t *testing.T, name string, args ...string) {
	t.Helper()
	ip(t, append([]string{"link", "add", name}, args...)...)
	// The context of the test has ended by then, and the test may have deleted the link.
	t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "ip", "link", "del", name).Run() })
	ip(t, "link", "set", name, "up")
}

// startWatcher opens a watcher and runs it until the test ends.
func startWatcher(t *testing.T) *Watcher {
	t.Helper()
	w := openWatcher(t, io.Discard, defaultReceiveBuffer)
	runWatcher(t, w)
	return w
}

func openWatcher(t *testing.T, log io.Writer, buffer int) *Watcher {
	t.Helper()
	nstest.Require(t)
	w, err := open(slog.New(slog.NewTextHandler(log, nil)), buffer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return w
}

func runWatcher(t *testing.T, w *Watcher) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// await takes a snapshot, and another one after each Changed only, until ok accepts one.
func await(t *testing.T, w *Watcher, what string, ok func([]Address) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	for {
		list, err := w.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if ok(list) {
			return
		}
		select {
		case <-w.Changed():
		case <-ctx.Done():
			t.Fatalf("no event led to: %s; the addresses are %+v", what, list)
		}
	}
}

func findAddress(list []Address, want string) (Address, bool) {
	i := slices.IndexFunc(list, func(a Address) bool { return a.IP == netip.MustParseAddr(want) })
	if i < 0 {
		return Address{}, false
	}
	return list[i], true
}

func contains(want string) func([]Address) bool {
	return func(list []Address) bool {
		_, ok := findAddress(list, want)
		return ok
	}
}

func lacks(want string) func([]Address) bool {
	return func(list []Address) bool { return !contains(want)(list) }
}

// clearSignal discards the signal of past events.
func clearSignal(t *testing.T, w *Watcher) {
	t.Helper()
	select {
	case <-w.Changed():
	default:
	}
}

// ipAddresses returns the addresses according to ip(8), the oracle of these tests.
func ipAddresses(t *testing.T) []Address {
	t.Helper()
	var links []struct {
		Ifindex  uint32 `json:"ifindex"`
		AddrInfo []struct {
			Local      string `json:"local"`
			Peer       string `json:"address"`
			Prefix     int    `json:"prefixlen"`
			Tentative  bool   `json:"tentative"`
			Optimistic bool   `json:"optimistic"`
			DADFailed  bool   `json:"dadfailed"`
		} `json:"addr_info"`
	}
	if err := json.Unmarshal([]byte(ip(t, "-j", "addr")), &links); err != nil {
		t.Fatal(err)
	}
	var list []Address
	for _, l := range links {
		for _, a := range l.AddrInfo {
			if a.Local == "" {
				continue
			}
			own := netip.MustParseAddr(a.Local)
			if a.Peer != "" {
				a.Prefix = own.BitLen()
			}
			list = append(list, Address{
				IP:        own,
				Bits:      a.Prefix,
				Link:      l.Ifindex,
				Tentative: a.Tentative && !a.Optimistic,
				DADFailed: a.DADFailed,
			})
		}
	}
	return list
}

func diffAgainstIP(t *testing.T, w *Watcher) string {
	t.Helper()
	got, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	want := ipAddresses(t)
	for _, list := range [][]Address{got, want} {
		slices.SortFunc(list, func(a, b Address) int {
			return cmp.Or(a.IP.Compare(b.IP), cmp.Compare(a.Link, b.Link))
		})
	}
	return gocmp.Diff(want, got, gocmp.Comparer(func(a, b netip.Addr) bool { return a == b }))
}

func TestVIPsComeAndGo(t *testing.T) {
	tests := []struct {
		name  string
		setup func(*testing.T)
		add   []string // ip addr add …
		ip    string
		want  Address // but for the link
	}{
		{
			name: "IPv4 VIP with a label",
			add:  []string{"192.0.2.5/32", "label", "v0:vip", "dev", "v0"},
			ip:   "192.0.2.5",
		},
		{
			name: "IPv6 VIP, nodad, preferred lifetime 0",
			add:  []string{"2001:db8::5/128", "dev", "v0", "nodad", "preferred_lft", "0"},
			ip:   "2001:db8::5",
		},
		{
			name:  "IPv4 secondary",
			setup: func(t *testing.T) { t.Helper(); ip(t, "addr", "add", "192.0.2.1/24", "dev", "v0") },
			add:   []string{"192.0.2.5/24", "dev", "v0"},
			ip:    "192.0.2.5",
			want:  Address{Bits: 24},
		},
		{
			name: "IPv4 with a peer: the own end counts",
			add:  []string{"192.0.2.5", "peer", "198.51.100.1/32", "dev", "v0"},
			ip:   "192.0.2.5",
		},
		{
			name: "IPv6 with a peer: the own end counts",
			add:  []string{"2001:db8::5", "peer", "2001:db8:1::1/128", "dev", "v0", "nodad"},
			ip:   "2001:db8::5",
		},
		{
			name: "on a macvlan, as with use_vmac",
			setup: func(t *testing.T) {
				t.Helper()
				link(t, "vrrp.51", "link", "v0", "type", "macvlan", "mode", "private")
			},
			add: []string{"192.0.2.5/32", "dev", "vrrp.51"},
			ip:  "192.0.2.5",
		},
		{
			name: "on the loopback link",
			add:  []string{"192.0.2.5/32", "dev", "lo"},
			ip:   "192.0.2.5",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := startWatcher(t)
			link(t, "v0", "type", "veth", "peer", "name", "v1")
			if tt.setup != nil {
				tt.setup(t)
			}
			clearSignal(t, w)

			ip(t, append([]string{"addr", "add"}, tt.add...)...)
			await(t, w, "the VIP is here", contains(tt.ip))
			list, err := w.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			got, _ := findAddress(list, tt.ip)
			tt.want.IP, tt.want.Link, tt.want.Bits = netip.MustParseAddr(tt.ip), got.Link, cmp.Or(tt.want.Bits, got.IP.BitLen())
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if diff := diffAgainstIP(t, w); diff != "" {
				t.Errorf("snapshot differs from ip -j addr (-ip +snapshot):\n%s", diff)
			}

			clearSignal(t, w)
			del := []string{"addr", "del", tt.add[0], "dev", tt.add[slices.Index(tt.add, "dev")+1]}
			if tt.add[1] == "peer" {
				del = []string{"addr", "del", tt.add[0], "peer", tt.add[2], "dev", "v0"}
			}
			ip(t, del...)
			await(t, w, "the VIP is gone", lacks(tt.ip))
		})
	}
}

// TestDuplicateAddressDetection: a unique address becomes usable, and one that v1 has while
// v0 probes for it is marked as failed.
func TestDuplicateAddressDetection(t *testing.T) {
	w := startWatcher(t)
	link(t, "v0", "type", "veth", "peer", "name", "v1")
	ip(t, "link", "set", "v1", "up")
	ip(t, "addr", "add", "2001:db8::8/64", "dev", "v1", "nodad")
	ip(t, "addr", "add", "2001:db8::7/64", "dev", "v0")
	ip(t, "addr", "add", "2001:db8::8/64", "dev", "v0")
	var wasTentative bool
	await(t, w, "one address is final and the other is marked as failed", func(list []Address) bool {
		a, ok := findAddress(list, "2001:db8::7")
		wasTentative = wasTentative || a.Tentative
		return ok && !a.Tentative && !a.DADFailed && slices.ContainsFunc(list, func(a Address) bool {
			return a.IP == netip.MustParseAddr("2001:db8::8") && a.DADFailed
		})
	})
	if !wasTentative {
		t.Error("the address was never seen tentative")
	}
	if diff := diffAgainstIP(t, w); diff != "" {
		t.Errorf("snapshot differs from ip -j addr (-ip +snapshot):\n%s", diff)
	}
}

func TestLinkDeleted(t *testing.T) {
	w := startWatcher(t)
	link(t, "v0", "type", "veth", "peer", "name", "v1")
	ip(t, "addr", "add", "192.0.2.5/32", "dev", "v0")
	ip(t, "addr", "add", "2001:db8::5/128", "dev", "v0", "nodad")
	await(t, w, "both VIPs are here", func(list []Address) bool {
		return contains("192.0.2.5")(list) && contains("2001:db8::5")(list)
	})
	clearSignal(t, w)
	ip(t, "link", "del", "v0")
	await(t, w, "both VIPs are gone", func(list []Address) bool {
		return lacks("192.0.2.5")(list) && lacks("2001:db8::5")(list)
	})
}

// TestRepeatedAnnouncement: keepalived announces an address repeatedly. Each announcement
// causes a signal and no other snapshot.
func TestRepeatedAnnouncement(t *testing.T) {
	w := startWatcher(t)
	link(t, "v0", "type", "veth", "peer", "name", "v1")
	ip(t, "addr", "add", "192.0.2.5/32", "dev", "v0")
	await(t, w, "the VIP is here", contains("192.0.2.5"))
	for range 3 {
		clearSignal(t, w)
		ip(t, "addr", "replace", "192.0.2.5/32", "dev", "v0")
		expectSignal(t, w)
		if diff := diffAgainstIP(t, w); diff != "" {
			t.Errorf("snapshot differs from ip -j addr (-ip +snapshot):\n%s", diff)
		}
	}
}

func expectSignal(t *testing.T, w *Watcher) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	select {
	case <-w.Changed():
	case <-ctx.Done():
		t.Fatal("Changed did not fire")
	}
}

func TestOverflow(t *testing.T) {
	var log nstest.Log
	w := openWatcher(t, &log, 1)
	link(t, "v0", "type", "veth", "peer", "name", "v1")
	var batch strings.Builder
	for i := range 500 {
		fmt.Fprintf(&batch, "addr add 198.18.%d.%d/32 dev v0\n", i/250, i%250+1)
	}
	batch.WriteString("addr add 192.0.2.5/32 dev v0\n") // the queue is full when its event is sent
	nstest.RunWithInput(t, batch.String(), "ip", "-batch", "-")

	runWatcher(t, w)
	expectSignal(t, w)
	if diff := diffAgainstIP(t, w); diff != "" {
		t.Errorf("snapshot differs from ip -j addr (-ip +snapshot):\n%s", diff)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	for log.Count("event=address-overflow") == 0 {
		select {
		case <-w.Changed():
		case <-ctx.Done():
			t.Fatal("the kernel did not report ENOBUFS, so the test has no effect")
		}
	}

	clearSignal(t, w)
	ip(t, "addr", "del", "192.0.2.5/32", "dev", "v0")
	await(t, w, "events arrive after an overflow", lacks("192.0.2.5"))
}

// TestSnapshotDuringChanges: an address that does not change is in every snapshot that is
// taken while other addresses change.
func TestSnapshotDuringChanges(t *testing.T) {
	w := startWatcher(t)
	link(t, "v0", "type", "veth", "peer", "name", "v1")
	var add, del strings.Builder
	for i := range 400 {
		fmt.Fprintf(&add, "addr add 198.18.%d.%d/32 dev v0\n", i/250, i%250+1)
		fmt.Fprintf(&del, "addr del 198.18.%d.%d/32 dev v0\n", i/250, i%250+1)
	}
	add.WriteString("addr add 192.0.2.5/32 dev v0\n")
	nstest.RunWithInput(t, add.String(), "ip", "-batch", "-")

	done := make(chan struct{})
	go func() {
		defer close(done)
		cmd := exec.CommandContext(t.Context(), "ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(del.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("ip -batch: %v: %s", err, out)
		}
	}()
	defer func() { <-done }()
	for running := true; running; {
		list, err := w.Snapshot()
		switch {
		case errors.Is(err, errInterrupted): // the number of dumps is bounded
		case err != nil:
			t.Fatal(err)
		case !contains("192.0.2.5")(list):
			t.Fatalf("a dump lacks an unchanged address: %d addresses, from %v on", len(list), list[1])
		}
		select {
		case <-done:
			running = false
		default:
		}
	}
	if diff := diffAgainstIP(t, w); diff != "" {
		t.Errorf("snapshot differs from ip -j addr (-ip +snapshot):\n%s", diff)
	}
}

// TestBrokenSocketIsReplaced: a broken socket is replaced after failed attempts, and changes
// in the meantime are signalled.
func TestBrokenSocketIsReplaced(t *testing.T) {
	var log nstest.Log
	w := openWatcher(t, &log, defaultReceiveBuffer)
	link(t, "v0", "type", "veth", "peer", "name", "v1")
	attempts := 0
	subscribe := w.subscribe
	w.subscribe = func() (*netlink.Conn, error) {
		if attempts++; attempts <= 2 {
			return nil, errors.New("no sockets left")
		}
		ip(t, "addr", "add", "192.0.2.5/32", "dev", "v0") // no socket receives its event
		return subscribe()
	}
	if err := w.events.Close(); err != nil {
		t.Fatal(err)
	}
	runWatcher(t, w)
	await(t, w, "the change without a subscription is seen", contains("192.0.2.5"))
	if attempts != 3 || log.Count("no sockets left") == 0 {
		t.Errorf("%d attempts, want 3, each failure logged", attempts)
	}
	clearSignal(t, w)
	ip(t, "addr", "del", "192.0.2.5/32", "dev", "v0")
	await(t, w, "events arrive over the new socket", lacks("192.0.2.5"))
}

// TestSnapshotAfterBrokenDumpSocket: the dump socket is replaced as well.
func TestSnapshotAfterBrokenDumpSocket(t *testing.T) {
	w := startWatcher(t)
	if _, err := w.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if err := w.dumper.conn.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Snapshot(); err == nil {
		t.Error("a snapshot over a closed socket succeeded")
	}
	if diff := diffAgainstIP(t, w); diff != "" {
		t.Errorf("snapshot differs from ip -j addr (-ip +snapshot):\n%s", diff)
	}
}

func TestRunEnds(t *testing.T) {
	t.Run("without an error when its context does", func(t *testing.T) {
		w := openWatcher(t, io.Discard, defaultReceiveBuffer)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
	t.Run("with an error when the watcher is closed", func(t *testing.T) {
		w := openWatcher(t, io.Discard, defaultReceiveBuffer)
		done := make(chan error, 1)
		go func() { done <- w.Run(t.Context()) }()
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Run = %v, want net.ErrClosed", err)
		}
	})
}
