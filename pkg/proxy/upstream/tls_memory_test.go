// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// runSilentRouter is a program. It creates a CA and prints its addresses and the
// CA. It reads requests over TLS without answering, until its input ends, and prints a
// line for each. A proxy with TLS forwards there.
func runSilentRouter(t testing.TB) int {
	t.Helper()
	p := newPKI(t)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", p.config(t, api))
	if err != nil {
		return 1
	}
	proxy, err := tls.Listen("tcp", "127.0.0.1:0", p.config(t, proxyName))
	if err != nil {
		return 1
	}
	fmt.Printf("%s %s %s\n", ln.Addr(), proxy.Addr(), hex.EncodeToString(p.root.Raw))
	go acceptEach(ln, func(conn net.Conn) {
		if readRequest(bufio.NewReader(conn)) {
			fmt.Println("a request")
		}
		_, _ = io.Copy(io.Discard, conn)
	})
	go acceptEach(proxy, func(conn net.Conn) {
		b := bufio.NewReader(conn)
		far, err := net.DialTimeout("tcp", ln.Addr().String(), testTimeout)
		if err != nil || !readRequest(b) {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(conn, far) }()
		_, _ = io.Copy(far, b)
	})
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// waitingClients is the number of challenges that wait at the same time.
const waitingClients = 256

func acceptEach(ln net.Listener, handle func(net.Conn)) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go handle(conn)
	}
}

// startSilentRouter runs the silent router in a process of its own, whose memory is
// not measured. through are settings with the proxy. Each request sends to received.
func startSilentRouter(t testing.TB) (s, through Settings, received <-chan struct{}) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "router")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	lines, requests := bufio.NewScanner(out), make(chan struct{}, 4*waitingClients)
	lines.Scan()
	words := strings.Fields(lines.Text())
	if len(words) != 3 {
		t.Fatalf("it printed %q", lines.Text())
	}
	go func() {
		for lines.Scan() {
			requests <- struct{}{}
		}
	}()
	der, err := hex.DecodeString(words[2])
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(words[0])
	s = Settings{Upstream: ingress.Upstream{
		Addresses: []netip.Addr{at.Addr()}, HTTPSPort: at.Port(), TLS: true,
		ConnectTimeout: testTimeout,
	}, TrustedCAs: NewTrustedCAs([][]byte{der})}
	through = s
	through.Egress = ingress.Egress{
		Routes: []ingress.EgressRoute{{Ingress: at, Proxy: ingress.EgressProxy{
			Name: proxyName, TLS: true,
			Addrs: []netip.AddrPort{netip.MustParseAddrPort(words[1])},
		}}},
		ProxyCAs: ingress.CABundle{Roots: [][]byte{der}},
	}
	return s, through, requests
}

// TestTLSWaitingMemory measures the memory of one of many challenges that wait for
// a response over TLS, including its stack. It is about 23 KiB. TLS within TLS, to a router
// behind a proxy with TLS, is about 27 KiB. 4096 of them stay within 128 MiB, half of what
// the unit's processes have (GOMEMLIMIT).
func TestTLSWaitingMemory(t *testing.T) {
	directly, through, received := startSilentRouter(t)
	t.Run("directly", func(t *testing.T) { measureWaiting(t, directly, received, 25<<10+raceOverhead) })
	t.Run("through a proxy by TLS", func(t *testing.T) { measureWaiting(t, through, received, 30<<10+raceOverhead) })
}

func measureWaiting(t *testing.T, s Settings, received <-chan struct{}, limit int64) {
	t.Helper()
	c := newClient(t, s)
	memory := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse // of the heap only live objects, without spans of other tests
	}
	ended := make(chan *Error, waitingClients+1)
	ask := func(clients int) {
		for range clients {
			go func() {
				_, _, e := doExchange(t, c, newRequest())
				ended <- e
			}()
		}
		for range clients {
			select {
			case <-received:
			case e := <-ended:
				t.Fatalf("an exchange does not wait: %v", e)
			}
		}
	}
	ask(1) // allocates what stays allocated
	before := memory()
	ask(waitingClients)
	after := memory()
	each := int64(after-before) / waitingClients
	t.Logf("%d bytes each", each)
	if each > limit {
		t.Errorf("one that waits takes %d bytes, want at most %d", each, limit)
	}
	c.Close()
	for range waitingClients + 1 {
		if e := <-ended; e == nil || e.Cause != findings.ExchangeStopped {
			t.Errorf("%v", e)
		}
	}
}
