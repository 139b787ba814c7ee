// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestEventCounts: each event is counted once, and a start is not a reload.
func TestEventCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(*fixture) {})
		defer f.stop()
		want := report.Events{Reloads: map[string]uint64{}, VIPTests: map[report.VIPTestResult]uint64{}}
		check := func(what string) {
			t.Helper()
			if diff := cmp.Diff(want, f.tracker.Report(report.Table{}).Events); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		check("at the start")

		hold := func(addrs ...address.Address) {
			f.withLock(func() { f.held = addrs })
			f.addressEvents <- struct{}{}
			synctest.Wait()
		}
		vip := address.Address{IP: netip.MustParseAddr("192.0.2.5")}
		hold(vip)
		hold(vip)
		hold()
		want.VIPTransitions = 2
		check("a VIP that came and went")

		f.withLock(func() { f.differs = true })
		idle(2 * resyncInterval)
		want.TableRepairs = 1
		check("a table that was changed")

		f.reload <- syscall.SIGHUP
		synctest.Wait()
		want.Reloads["unchanged"] = 1
		check("a reload of the same")
		configure := func(text string) {
			f.configure(text)
			f.fileEvents <- struct{}{}
			idle(time.Second)
		}
		configure("metrics: {listenAddress: ':9645'}\nvips: {api: [192.0.2.5], ingress: [192.0.2.6]}\n")
		want.Reloads["accepted"] = 1
		check("a good configuration")
		configure("key: 1\n")
		want.Reloads["rejected"] = 1
		check("a rejected one")

		f.withLock(func() {
			if got := f.observed.Config.Metrics.ListenAddress; got != netip.MustParseAddrPort("[::]:9645") {
				t.Errorf("active configuration: metrics on %v", got)
			}
		})
	})
}

// TestFailedRepairIsNotCounted: only a replaced table counts as repaired.
func TestFailedRepairIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(*fixture) {})
		defer f.stop()
		repairs := func() uint64 { return f.tracker.Report(report.Table{}).Events.TableRepairs }
		f.withLock(func() { f.differs, f.refuses = true, errors.New("no") })
		idle(2 * resyncInterval)
		if n := repairs(); n != 0 {
			t.Errorf("%d repairs while the kernel returns errors", n)
		}
		f.withLock(func() { f.refuses = nil })
		idle(resyncInterval)
		if n := repairs(); n != 1 {
			t.Errorf("%d repairs", n)
		}
	})
}
