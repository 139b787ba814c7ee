// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
					follow(b, h)
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

// follow traces until the returned function is called, or else until the benchmark ends.
func follow(b *testing.B, h *testHost) (end func()) {
	b.Helper()
	trace, err := Start(Options{Held: []netip.Addr{vip4, vip6}, Port: internalPort}, h.prober)
	must(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := trace.poll(ctx); err != nil {
				return
			}
			trace.assemble.complete(trace.read)
		}
	}()
	end = sync.OnceFunc(func() {
		cancel()
		<-done
		must(b, trace.Close())
	})
	b.Cleanup(end)
	return end
}

// BenchmarkFlood measures how much of a core a flood of 20,000 SYNs a second takes in this process, in
// the prober and in the kernel on their behalf: without a trace, and how much more with one. The flood
// is sent from this process. Each round measures both.
func BenchmarkFlood(b *testing.B) {
	h := newTestHost(b)
	load(b, serviceTable)
	request(h.client, vip4) // ARP
	const bursts, perBurst, pace = 200, 100, 5 * time.Millisecond
	share := func() float64 {
		before, begin := processorTime(b), time.Now()
		for range bursts {
			next := time.Now().Add(pace)
			flood(b, h.client, 101, perBurst)
			<-time.After(time.Until(next))
		}
		return 100 * float64(processorTime(b)-before) / float64(time.Since(begin))
	}
	var without, more []float64
	for b.Loop() {
		alone := share()
		end := follow(b, h)
		without, more = append(without, alone), append(more, share()-alone)
		end()
	}
	for unit, values := range map[string][]float64{"%-of-a-core": without, "%-of-a-core-more": more} {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], unit)
	}
}

// processorTime returns the processor time of this process and its children so far.
func processorTime(b *testing.B) (sum time.Duration) {
	b.Helper()
	pids := []string{strconv.Itoa(os.Getpid())}
	tasks, err := os.ReadDir("/proc/self/task")
	must(b, err)
	for _, task := range tasks {
		children, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		pids = append(pids, strings.Fields(string(children))...)
	}
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		must(b, err)
		var used unix.Timespec
		// CPUCLOCK_SCHED of a process (Linux, include/linux/posix-timers_types.h).
		if unix.ClockGettime(int32(^pid<<3|2), &used) == nil {
			sum += time.Duration(used.Nano())
		}
	}
	return sum
}
