// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestOtherTables holds that all other tables are unchanged before, during and after a run,
// and still work.
func TestOtherTables(t *testing.T) {
	l, _ := cluster(t)
	master := l.ControlPlane[0].Node
	must(t, master.LoadNodeRules(t.Context()))
	t.Cleanup(func() {
		_, err := master.Run(context.Background(), "nft", "flush", "ruleset")
		must(t, err)
	})
	echo(t, master, "[::]:9445")
	before, err := master.Ruleset(t.Context())
	must(t, err)

	s := start(t, master, ServiceOptions{})
	name := publishName(t, l, "tables", l.API)
	for _, from := range []*Node{l.Pods[0], master} {
		orderCertificate(t, l, name, from)
	}
	for _, vip := range l.API.Both() {
		conn, err := l.Internet.Dial(t.Context(), "tcp", netip.AddrPortFrom(vip, 6443).String())
		must(t, err)
		if got := sendAndReceive(t, conn, "hello"); got != "hello" {
			t.Errorf("the API's own redirect on %s returned %q", vip, got)
		}
		_ = conn.Close()
	}
	if present, err := master.HasServiceTable(t.Context()); !present || err != nil {
		t.Errorf("no table of the service: %v", err)
	}
	during, err := master.OtherTables(t.Context())
	must(t, err)
	if diff := cmp.Diff(before, during); diff != "" {
		t.Errorf("other tables during the run (-before +during):\n%s", diff)
	}
	must(t, s.Stop(t.Context()))
	after, err := master.Ruleset(t.Context())
	must(t, err)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("ruleset after the run (-before +after):\n%s", diff)
	}
}

// TestFlushRuleset flushes the whole ruleset during a run, as `systemctl restart nftables`
// does.
func TestFlushRuleset(t *testing.T) {
	l, _ := cluster(t)
	master := l.ControlPlane[0].Node
	s := start(t, master, ServiceOptions{})
	must(t, master.LoadNodeRules(t.Context()))
	before, err := master.Run(t.Context(), "nft", "-s", "-a", "list", "table", "inet", "http01-proxyd")
	must(t, err)
	_, err = master.Run(t.Context(), "nft", "flush", "ruleset")
	must(t, err)
	after, err := master.Ruleset(t.Context())
	must(t, err)
	// The same handles: the table was never removed.
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the service's table after the flush (-want +got):\n%s", diff)
	}
	name := publishName(t, l, "flushed", l.API)
	orderCertificate(t, l, name, master)
	seen := status(t, s)
	want := Table{Present: true, Port: 8888, Elements: addressTexts(l.API)}
	if diff := cmp.Diff(want, seen.Table); diff != "" {
		t.Errorf("table (-want +status):\n%s", diff)
	}
}

// addressTexts returns the addresses of a pair as the status lists them.
func addressTexts(p Pair) []string {
	var out []string
	for _, a := range p.Both() {
		out = append(out, a.String())
	}
	return out
}

// TestKill holds that the kernel removes the table of a killed service, and that the next
// start serves again.
func TestKill(t *testing.T) {
	l, binary := cluster(t)
	master := l.ControlPlane[0].Node
	s, err := master.StartService(t.Context(), ServiceOptions{Binary: binary})
	must(t, err)
	before, err := master.OtherTables(t.Context())
	must(t, err)
	must(t, s.Kill(t.Context()))
	must(t, Eventually(t.Context(), "the table to be removed with its owner", func(ctx context.Context) error {
		present, err := master.HasServiceTable(ctx)
		if err == nil && present {
			err = errors.New("table present")
		}
		return err
	}))
	after, err := master.Ruleset(t.Context())
	must(t, err)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("ruleset after SIGKILL (-before +after):\n%s", diff)
	}
	for _, vip := range l.API.Both() {
		awaitRefused(t, l.Internet.Node, web(vip))
	}
	start(t, master, ServiceOptions{Keep: true})
	name := publishName(t, l, "killed", l.API)
	orderCertificate(t, l, name, l.Pods[0])
}

// TestDrain holds that a challenge in flight completes while the service stops, and that
// nothing is left.
func TestDrain(t *testing.T) {
	l, _ := cluster(t)
	master := l.ControlPlane[0].Node
	for _, vip := range l.API.Both() {
		t.Run(vip.String(), func(t *testing.T) {
			s := start(t, master, ServiceOptions{})
			host := publishName(t, l, "drained", l.API)
			slow := startSlowBackend(t, l, host)
			inFlight := sendChallenge(t, l, vip, host)
			slow.awaitRequest(t)
			must(t, s.Signal(unix.SIGTERM))
			// The service drains once it refuses new connections.
			awaitRefused(t, l.Internet.Node, web(vip))
			close(slow.release)
			(<-inFlight).expectComplete(t)
			must(t, s.Wait(t.Context()))
			if s.Notifications.Count("STOPPING=1") != 1 {
				t.Errorf("notifications: %q", s.Notifications.All())
			}
			expectNothingLeft(t, master)
		})
	}
}

// TestDrainIsBounded holds that an endless challenge does not prevent the stop.
func TestDrainIsBounded(t *testing.T) {
	l, _ := cluster(t)
	master := l.ControlPlane[0].Node
	s := start(t, master, ServiceOptions{
		Config: master.DefaultConfig() + "upstream: {timeout: 60s}\n",
	})
	host := publishName(t, l, "stuck", l.API)
	slow := startSlowBackend(t, l, host)
	inFlight := sendChallenge(t, l, l.API.V4, host)
	slow.awaitRequest(t)
	must(t, s.Signal(unix.SIGTERM))
	must(t, s.Wait(t.Context()))
	if r := <-inFlight; strings.HasSuffix(r.text, backendBody) {
		t.Errorf("got an answer that was not sent: %+v", r)
	}
	expectNothingLeft(t, master)
}

// expectNothingLeft fails the test when a stopped service left a table, a listener or its
// socket.
func expectNothingLeft(t *testing.T, n *Node) {
	t.Helper()
	if present, err := n.HasServiceTable(t.Context()); present || err != nil {
		t.Errorf("table left: %t, %v", present, err)
	}
	listeners, err := n.Run(t.Context(), "ss", "-Hltn", "sport", "=", ":8888")
	must(t, err)
	if strings.TrimSpace(listeners) != "" {
		t.Errorf("listener left: %s", listeners)
	}
	sockets, err := n.Run(t.Context(), "find", n.serviceFile(""), "-name", "status.sock")
	must(t, err)
	if strings.TrimSpace(sockets) != "" {
		t.Errorf("socket left: %s", sockets)
	}
}
