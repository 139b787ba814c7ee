// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"fmt"
	"net/http"
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

// A process without privileges makes the self-tests. It is replaced when it ended, and
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
