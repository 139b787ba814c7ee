// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
)

// BenchmarkOtherTraffic measures connections to another port of the host without and with a
// trace, and connections to the VIP beyond the limit of events. The time of an operation is
// that of both ends and of the kernel.
func BenchmarkOtherTraffic(b *testing.B) {
	h := newTestHost(b)
	load(b, serviceTable)
	other, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", ":6443")
	must(b, err)
	b.Cleanup(func() { _ = other.Close() })
	go func() {
		for {
			c, err := other.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	for _, traced := range []bool{false, true} {
		for _, port := range []uint16{6443, webPort} {
			b.Run(fmt.Sprintf("port=%d/trace=%v", port, traced), func(b *testing.B) {
				if traced {
					trace, err := Start(Options{Held: []netip.Addr{vip4, vip6}, Port: internalPort}, h.prober)
					must(b, err)
					done := make(chan struct{})
					go func() {
						defer close(done)
						for b.Context().Err() == nil {
							if err := trace.poll(b.Context()); err != nil {
								return
							}
							trace.assemble.complete(trace.read)
						}
					}()
					b.Cleanup(func() {
						<-done
						must(b, trace.Close())
					})
				}
				h.client.In(func() {
					for b.Loop() {
						c, err := net.Dial("tcp", netip.AddrPortFrom(vip4, port).String())
						if err != nil {
							b.Error(err)
							return
						}
						_, _ = c.Read(make([]byte, 64))
						_ = c.Close()
					}
				})
			})
		}
	}
}
