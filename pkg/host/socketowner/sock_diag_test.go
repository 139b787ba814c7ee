// SPDX-License-Identifier: Apache-2.0

//go:build linux

package socketowner

import (
	"net"
	"net/netip"
	"testing"
)

// A connection is found as soon as it is established. A listening socket is not a connection.
func TestHasConnection(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	port := netip.MustParseAddrPort(ln.Addr().String()).Port()
	for _, address := range []string{"127.0.0.1", "::1"} {
		at := netip.AddrPortFrom(netip.MustParseAddr(address), port)
		client, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		from := netip.MustParseAddrPort(client.LocalAddr().String())
		if found, err := HasConnection(at, from); !found || err != nil {
			t.Errorf("a connection to %v that was not accepted: %t, %v", at, found, err)
		}
		if found, err := HasConnection(at, netip.AddrPortFrom(from.Addr(), from.Port()^1)); found || err != nil {
			t.Errorf("a connection to %v that does not exist: %t, %v", at, found, err)
		}
	}
}
