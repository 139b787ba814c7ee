// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPortIsSharedByDestinations: a local port can serve several ingress addresses
// at the same time.
func TestPortIsSharedByDestinations(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a network namespace of its own")
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and its namespace with it
		result <- withTwoPorts(t)
	}()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

// withTwoPorts runs in a network namespace with two ephemeral ports.
func withTwoPorts(t *testing.T) error {
	t.Helper()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := exec.CommandContext(t.Context(), "ip", "link", "set", "lo", "up").Run(); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40001"), 0); err != nil {
		return err
	}
	for _, at := range []string{"127.0.0.1:80", "127.0.0.2:80"} {
		ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", at)
		if err != nil {
			return err
		}
		defer ln.Close()
		for range 2 {
			conn, err := dialTCP(t.Context(), netip.MustParseAddrPort(at), time.Second)
			if err != nil {
				return err
			}
			defer conn.Close()
		}
	}
	return nil
}
