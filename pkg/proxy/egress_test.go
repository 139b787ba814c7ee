// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// TestEgressChangesWithConfiguration: while the port of the ingress changes under
// load, no challenge bypasses the proxy. Nobody answers there.
func TestEgressChangesWithConfiguration(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
	}))
	defer proxy.Close()
	k := startProxy(t, func(http.ResponseWriter, *http.Request) {})
	defer k.stop()
	change := func(port uint16) {
		at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
		k.command(protocol.Command{Configure: configure(at, &ingress.Egress{Routes: []ingress.EgressRoute{{
			Ingress: at,
			Proxy: ingress.EgressProxy{
				Name: "proxy.example", Addrs: []netip.AddrPort{netip.MustParseAddrPort(proxy.Listener.Addr().String())},
			},
		}}})}, -1)
		k.awaitFlushed()
	}
	change(1)
	k.listen()
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if code := k.get(token); code != http.StatusAccepted {
					t.Errorf("%d", code)
					return
				}
			}
		})
	}
	for i := range uint16(40) {
		change(2 - i%2)
	}
	close(stop)
	load.Wait()
}

// awaitFlushed waits until the previous commands were executed.
func (k *testController) awaitFlushed() {
	k.Helper()
	k.command(protocol.Command{Flush: &protocol.Flush{}}, -1)
	k.awaitEvent("the end of the flush", func(w protocol.Event) bool { return w.Flushed != nil })
}
