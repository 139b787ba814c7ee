// SPDX-License-Identifier: Apache-2.0

package network_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/network"
)

// TestMain is also the child, which has no capability and few system calls.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == child.Prober {
		conn, err := child.Connect()
		if err == nil {
			err = network.RunConfined(context.Background(), conn)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	nstest.Main(m)
}

// testTimeout bounds every wait; only a failing test reaches it.
const testTimeout = 30 * time.Second

func startClient(t *testing.T) *prober.Client {
	t.Helper()
	nstest.Require(t)
	c, err := prober.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func withTimeout(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// noDAD disables duplicate address detection, which delays IPv6 addresses by a second.
const noDAD = "net.ipv6.conf.default.accept_dad=0"

// host is another network namespace.
type host struct {
	t   *testing.T
	tid int // of a thread in it
}

// path returns a path of the namespace that other processes can open.
func (h *host) path() string { return fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), h.tid) }

// addHost creates a host and connects its link eth0 with the bridge.
func addHost(t *testing.T, name string) *host {
	t.Helper()
	started, ended := make(chan int), make(chan struct{})
	go func() {
		defer close(ended)
		// The thread ends with the goroutine, and the namespace with the thread.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			close(started)
			return
		}
		started <- unix.Gettid()
		<-t.Context().Done()
	}()
	tid, is := <-started
	if !is {
		t.FailNow()
	}
	t.Cleanup(func() { <-ended })
	h := &host{t: t, tid: tid}
	h.run("sysctl", "-qw", noDAD)
	nstest.Run(t, "ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", h.path())
	nstest.Run(t, "ip", "link", "set", name, "master", "lan0", "up")
	h.run("ip", "link", "set", "lo", "up")
	h.run("ip", "link", "set", "eth0", "up")
	return h
}

func (h *host) run(args ...string) {
	h.t.Helper()
	nstest.Run(h.t, "nsenter", append([]string{"--net=" + h.path(), "--"}, args...)...)
}
