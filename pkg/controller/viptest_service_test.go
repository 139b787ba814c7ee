// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"slices"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// BenchmarkVIPTest measures the processor time of a test of one VIP in the processes of the host that
// holds it and of the host that tests it: what they use with a test each second, less what they use
// without tests. Each round measures both.
func BenchmarkVIPTest(b *testing.B) {
	const seconds = 5 // of each half of a round
	addNetwork(b, nil)
	addVIP(b)
	other := nstest.NewNetns(b) // the link ends with it
	nstest.Run(b, "ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", other.Path())
	nstest.Run(b, "ip", "link", "set", "near", "up")
	nstest.Run(b, "ip", "addr", "add", "192.0.2.10/24", "dev", "near")
	other.Run(b, "ip", "link", "set", "far", "up")
	other.Run(b, "ip", "addr", "add", "192.0.2.11/24", "dev", "far")

	holder := newService(b, explicit)
	holder.start(nil)
	tester := newService(b, "")
	text := func(interval string) string {
		return "vips: {api: [" + vip + "], ingress: [" + ingressAddr + "], testInterval: " + interval + "}\n"
	}
	tester.configure(text("1s"))
	other.In(func() { tester.start(nil) })
	holder.awaitReason(report.Serving)
	answered := func(r report.Report) uint64 { return r.Events.VIPTests[report.VIPAnswered] }
	tester.await("a test", func(r report.Report) bool { return answered(r) > 0 })

	pids := map[string]int{
		"holder/controller": holder.cmd.Process.Pid, "holder/proxy": holder.awaitNewProxy(0),
		"tester/controller": tester.cmd.Process.Pid, "tester/proxy": tester.awaitNewProxy(0),
	}
	measure := func(interval string) (tests float64, used map[string]time.Duration) {
		tester.configure(text(interval))
		<-time.After(time.Second) // the reload
		used = make(map[string]time.Duration)
		begin := answered(tester.await("report", func(report.Report) bool { return true }))
		for name, pid := range pids {
			used[name] = -processorTime(b, pid)
		}
		<-time.After(seconds * time.Second)
		for name, pid := range pids {
			used[name] += processorTime(b, pid)
		}
		return float64(answered(tester.await("report", func(report.Report) bool { return true })) - begin), used
	}
	all := make(map[string][]float64)
	for b.Loop() {
		_, idle := measure("0s")
		tests, used := measure("1s")
		if tests == 0 {
			b.Fatal("no test was answered")
		}
		for name := range pids {
			all[name] = append(all[name], float64((used[name]-idle[name]).Microseconds())/tests)
		}
	}
	for name, values := range all {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], "cpu-µs/"+name)
	}
	holder.stop()
	other.In(tester.stop) // it expects no table in the namespace of the caller
}
