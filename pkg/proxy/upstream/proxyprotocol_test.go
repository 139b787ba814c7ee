// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

var proxyHeaders = []struct {
	name        string
	client, vip string
	// as a router reads it; empty: it must use the connection's own
	src, dst string
}{
	{name: "IPv4", client: "198.51.100.7:40123", vip: "192.0.2.5:80", src: "198.51.100.7:40123", dst: "192.0.2.5:80"},
	{
		name: "IPv6", client: "[2001:db8::7]:65535", vip: "[2001:db8:0:1::5]:80", src: "2001:db8::7:65535",
		dst: "2001:db8:0:1::5:80",
	},
	{
		name: "mapped", client: "[::ffff:198.51.100.7]:1", vip: "[::ffff:192.0.2.5]:80", src: "198.51.100.7:1",
		dst: "192.0.2.5:80",
	},
	{
		name: "one is mapped", client: "[::ffff:198.51.100.7]:1", vip: "192.0.2.5:80", src: "198.51.100.7:1",
		dst: "192.0.2.5:80",
	},
	{name: "link-local", client: "[fe80::7%eth0]:1", vip: "[2001:db8::5]:80", src: "fe80::7:1", dst: "2001:db8::5:80"},
	{name: "two families", client: "[2001:db8::7]:1", vip: "192.0.2.5:80"},
	{name: "no client", vip: "192.0.2.5:80"},
}

func addrPort(text string) netip.AddrPort {
	if text == "" {
		return netip.AddrPort{}
	}
	return netip.MustParseAddrPort(text)
}

// startHAProxy runs the real program on a listener that it gets as descriptor 3. It
// returns the address of the listener. frontend is added to the configuration.
func startHAProxy(t *testing.T, bind, frontend string) netip.AddrPort {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := ln.(*net.TCPListener).File()
	addr := ln.Addr().(*net.TCPAddr).AddrPort()
	_ = ln.Close()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "haproxy.cfg")
	text := "global\n\tmaxconn 100\n\tzero-warning\ndefaults\n\tmode http\n\ttimeout client 10s\n\ttimeout server " +
		"10s\n\ttimeout connect 5s\n" +
		"frontend router\n\tbind fd@3 " + bind + "\n" + frontend
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "haproxy", "-db", "-q", "-f", path)
	cmd.ExtraFiles = []*os.File{file}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return addr
}

const returnsAddresses = "\thttp-request return status 200 content-type text/plain lf-string \"%[src]:%[src_port] " +
	"%[dst]:%[dst_port]\"\n"

// TestProxyHeaderByHAProxy: the real router reports the client's address.
func TestProxyHeaderByHAProxy(t *testing.T) {
	t.Parallel()
	router := startHAProxy(t, "accept-proxy", returnsAddresses)
	for _, h := range proxyHeaders {
		for _, version := range []ingress.ProxyProtocol{ingress.ProxyProtocolV1, ingress.ProxyProtocolV2} {
			t.Run(fmt.Sprintf("%s v%d", h.name, version), func(t *testing.T) {
				t.Parallel()
				conn, err := net.DialTimeout("tcp", router.String(), testTimeout)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(testTimeout))
				head, err := proxyHeader(version, addrPort(h.client), addrPort(h.vip))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Write(append(head, request...)); err != nil {
					t.Fatal(err)
				}
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				want := h.src + " " + h.dst
				if h.src == "" {
					want = conn.LocalAddr().String() + " " + router.String()
				}
				if err != nil || string(body) != want {
					t.Errorf("it sees %q, want %q; %v", body, want, err)
				}
			})
		}
	}
}
