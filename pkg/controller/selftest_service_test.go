// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// shortSelfTestInterval shortens the time between two self-tests.
func shortSelfTestInterval() string {
	return serviceTiming + fmt.Sprintf(`={"SelfTestInterval": %d}`, 20*time.Millisecond)
}

// A process without privileges makes the self-tests. It is replaced when it has ended, and
// ends when the VIP leaves. No self-test is a challenge.
func TestSelfTestProcess(t *testing.T) {
	var found atomic.Bool // the ingress has a route
	addNetwork(t, func(w http.ResponseWriter, _ *http.Request) {
		if !found.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	s := newService(t, explicit)
	s.start([]string{shortSelfTestInterval()})
	addVIP(t)
	awaitCause := func(what, cause string) {
		t.Helper()
		r := s.await(what, func(r report.Report) bool {
			return len(r.SelfTests) == 1 && r.SelfTests[0].Cause == cause && r.SelfTests[0].OK == (cause == "")
		})
		if r.Challenges.Total != 0 || len(r.Challenges.Recent) != 0 || r.Condition().Reason != report.Serving {
			t.Errorf("%s: %+v, %+v", what, r.Challenges, r.Condition())
		}
	}
	awaitCause("success", "")
	pid := 0
	for range 2 {
		before := pid
		nstest.Await(t, "a prober process", func() bool {
			pid = s.childPID(child.Prober)
			return pid != 0 && pid != before
		})
		found.Store(true)
		awaitCause("an unexpected answer", "name-already-served")
		found.Store(false)
		awaitCause("success again", "")
		checkUnprivileged(t, pid) // a new process first installs its filter
		must(t, unix.Kill(pid, unix.SIGKILL))
	}
	s.awaitLog("A route serves " + vip + " already: " + ingressAddr +
		":80 responds (status 200) to a challenge that does not exist")
	nstest.Await(t, "the end of both failures in the log",
		func() bool { return s.log.Count("event=self-test-recovered") == 2 })
	nstest.Run(t, "ip", "addr", "del", vip+"/32", "dev", "lan0")
	s.await("no result on standby", func(r report.Report) bool { return len(r.SelfTests) == 0 })
	nstest.Await(t, "no prober process", func() bool { return s.childPID(child.Prober) == 0 })
	s.stop()
}

// BenchmarkSelfTest measures the processor time of a self-test of one VIP in all processes
// of the service: the median, and the tenth percentile, which other programs on the machine
// influence least. Most self-tests do not coincide with other work of the service.
func BenchmarkSelfTest(b *testing.B) {
	requested := make(chan struct{}, 1000)
	addNetwork(b, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		requested <- struct{}{}
	})
	s := newService(b, explicit)
	s.start([]string{shortSelfTestInterval()})
	addVIP(b)
	s.awaitReason(report.Serving)
	<-requested
	pids := map[string]int{"controller": s.cmd.Process.Pid, "proxy": s.awaitNewProxy(0)}
	nstest.Await(b, "a prober process", func() bool {
		pids["prober"] = s.childPID(child.Prober)
		return pids["prober"] != 0
	})
	b.ReportMetric(float64(processorTime(b, pids["prober"]).Microseconds()), "cpu-µs/prober-start")
	last, used := map[string]time.Duration{}, map[string][]time.Duration{}
	for b.Loop() {
		<-requested // the end of one self-test and the beginning of the next one
		sum := time.Duration(0)
		for name, pid := range pids {
			now := processorTime(b, pid)
			used[name] = append(used[name], now-last[name])
			sum += now - last[name]
			last[name] = now
		}
		used["test"] = append(used["test"], sum)
	}
	for name, all := range used {
		all = all[min(1, len(all)-1):] // the first one is the time since the start
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), "cpu-µs/"+name)
		b.ReportMetric(float64(all[len(all)/10].Microseconds()), "p10-cpu-µs/"+name)
	}
	r := s.await("report", func(report.Report) bool { return true })
	if r.Challenges.Total != 0 || len(r.SelfTests) != 1 || !r.SelfTests[0].OK {
		b.Errorf("%+v, %+v", r.Challenges, r.SelfTests)
	}
	s.stop()
}

// processorTime returns the processor time that a process has used so far.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	// CPUCLOCK_SCHED of a process (Linux, include/linux/posix-timers_types.h).
	var used unix.Timespec
	must(t, unix.ClockGettime(int32(^pid<<3|2), &used))
	return time.Duration(used.Nano())
}
