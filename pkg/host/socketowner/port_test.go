// SPDX-License-Identifier: Apache-2.0

//go:build linux

package socketowner

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
)

// descriptions are the results for root and for the sandboxed service.
type descriptions struct{ Root, Unit string }

func describeBoth(t *testing.T, port uint16) descriptions {
	t.Helper()
	owner, _, _ := DescribeTCPPort(port)
	return descriptions{Root: owner, Unit: describeAsUnit(t, port)}
}

func hint(port uint16) string { return fmt.Sprintf(" (see: ss -lntp 'sport = :%d')", port) }

// uniqueCgroup returns a cgroup name that no other run of these tests uses.
func uniqueCgroup(unit string) string {
	return "http01-owner-" + nstest.ID() + ".slice/" + unit
}

func TestDescribeTCPPort(t *testing.T) {
	for name, tt := range map[string]struct{ network, address string }{
		"both families": {"tcp", ":0"},
		"Multipath TCP": {"mptcp", ":0"},
		"IPv4":          {"tcp4", "0.0.0.0:0"},
		"IPv6":          {"tcp6", "[::]:0"},
		"IPv4 address":  {"tcp4", "127.0.0.7:0"},
		"IPv6 address":  {"tcp6", "[::1]:0"},
		// A server with one socket per thread is one owner.
		"two sockets": {"tcp", ":0 twice"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startListener(t, makeCgroup(t, uniqueCgroup("squatter.service")), tt.network, tt.address)
			if sockets, err := listListening(s.port); err != nil || len(sockets) != 1+strings.Count(tt.address, "twice") {
				t.Fatalf("listening = %v, %v", sockets, err)
			}
			want := descriptions{
				Root: fmt.Sprintf("process %d (%s) of unit squatter.service", s.pid, commOf(t, s.pid)) + hint(s.port),
				Unit: "unit squatter.service" + hint(s.port),
			}
			if diff := cmp.Diff(want, describeBoth(t, s.port)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPod(t *testing.T) {
	const pod = "8f1f7c1e-33a4-4b0a-9d1c-0d9a3a0b7f11"
	id := strings.Repeat("0123456789abcdef", 4)
	scope := "crio-" + id + ".scope"
	slice := "kubepods-pod" + strings.ReplaceAll(pod, "-", "_") + ".slice"
	cgroup := makeCgroup(t, uniqueCgroup("kubepods.slice/"+slice+"/"+scope+"/container"))
	s := startListener(t, cgroup, "tcp", ":0")
	want := descriptions{
		Root: fmt.Sprintf("process %d (%s) of unit %s, pod %s", s.pid, commOf(t, s.pid), scope, pod) + hint(s.port),
		Unit: fmt.Sprintf("unit %s, pod %s", scope, pod) + hint(s.port),
	}
	if diff := cmp.Diff(want, describeBoth(t, s.port)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Different addresses of a port can have different owners.
func TestSeveralOwners(t *testing.T) {
	a := startListener(t, makeCgroup(t, uniqueCgroup("a.service")), "tcp4", "127.0.0.1:0")
	b := startListener(t, makeCgroup(t, uniqueCgroup("b.service")), "tcp6", fmt.Sprintf("[::1]:%d", a.port))
	want := descriptions{
		Root: fmt.Sprintf("process %d (%s) of unit a.service and process %d (%s) of unit b.service",
			a.pid, commOf(t, a.pid), b.pid, commOf(t, b.pid)) + hint(a.port),
		Unit: "unit a.service and unit b.service" + hint(a.port),
	}
	if diff := cmp.Diff(want, describeBoth(t, a.port)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The root cgroup is not named: with cgroup version 1 all processes are in it.
func TestRootCgroupIsNotNamed(t *testing.T) {
	s := startListener(t, makeCgroup(t, ""), "tcp", ":0")
	want := descriptions{
		Root: fmt.Sprintf("process %d (%s)", s.pid, commOf(t, s.pid)) + hint(s.port),
		Unit: "a process of user ID 0" + hint(s.port),
	}
	if diff := cmp.Diff(want, describeBoth(t, s.port)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A socket stays in its cgroup if its process moves to another one.
func TestProcessChangesCgroup(t *testing.T) {
	dir := makeCgroup(t, uniqueCgroup("squatter.service"))
	s := startListener(t, dir, "tcp", ":0")
	err := os.WriteFile(filepath.Join(makeCgroup(t, ""), "cgroup.procs"), []byte(strconv.Itoa(s.pid)), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	process := fmt.Sprintf("process %d (%s)", s.pid, commOf(t, s.pid))
	const squatter = "unit squatter.service"
	want := descriptions{Root: process + " of " + squatter + hint(s.port), Unit: squatter + hint(s.port)}
	if diff := cmp.Diff(want, describeBoth(t, s.port)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	removeCgroup(t, dir)
	want = descriptions{Root: process + hint(s.port), Unit: "a process of user ID 0" + hint(s.port)}
	if diff := cmp.Diff(want, describeBoth(t, s.port)); diff != "" {
		t.Errorf("without its cgroup (-want +got):\n%s", diff)
	}
}

func TestNobodyListens(t *testing.T) {
	s := startListener(t, makeCgroup(t, ""), "tcp4", "127.0.0.1:0")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s.stop()
	for name, port := range map[string]uint16{
		"a closed port":       s.port,
		"a connection's port": netip.MustParseAddrPort(conn.LocalAddr().String()).Port(),
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf("a socket that does not listen, such as an outgoing connection from this port "+
				"(see: ss -tanp 'sport = :%d')", port)
			if diff := cmp.Diff(descriptions{Root: text, Unit: text}, describeBoth(t, port)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFindProcess(t *testing.T) {
	nstest.Require(t)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sockets, err := listListening(netip.MustParseAddrPort(l.Addr().String()).Port())
	if err != nil || len(sockets) != 1 {
		t.Fatalf("listening = %v, %v; want one socket", sockets, err)
	}
	inode, pid := uint64(sockets[0].inode), os.Getpid()
	want := Process{PID: pid, Comm: commOf(t, pid)}
	for name, likely := range map[string][]int{
		"unknown": nil, "right": {pid}, "wrong": {1, os.Getppid()}, "ended": {1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			if got, found := FindProcess(inode, likely...); !found || got != want {
				t.Errorf("got %v, %v; want %v", got, found, want)
			}
		})
	}
	l.Close()
	if got, found := FindProcess(inode, pid); found {
		t.Errorf("the owner of a closed socket is %v", got)
	}
}
