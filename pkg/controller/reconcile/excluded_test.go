// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestInternalAddressRemembered: the last internal address of MicroShift is excluded, also
// after microshift.directory was removed.
func TestInternalAddressRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const given = "vips: {api: [10.97.0.0], ingress: [192.0.2.6]}\nmicroshift: {directory: \"\"}\n"
		f := startLoop(t, func(f *fixture) {
			f.microShift("ms", "")
			f.held = parsePrefixes("192.0.2.9/24 eth0", "10.97.0.0/32 lo")
			f.write("ms/config.yaml", "node: {nodeIP: 192.0.2.9}\nnetwork: {serviceNetwork: [10.96.0.0/16]}\n")
		})
		defer f.stop()
		if f.reason() != report.NotRequired {
			t.Errorf("%s", f.reason())
		}
		f.configure(given)
		f.fileEvents <- struct{}{}
		idle(time.Second)
		f.expect("not looked at any more", report.NoVIPs, "10.97.0.0 is a single address on lo or br-ex")
	})
}

// TestMicroShiftDirectoryChange: the result for one directory is not used for another.
func TestMicroShiftDirectoryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(f *fixture, dir string) {
			f.microShift(dir, ", manageAdvertiseAddress: true")
		}
		f := startLoop(t, func(f *fixture) {
			at(f, "a")
			f.held = parsePrefixes("192.0.2.9/24 eth0")
			for dir, text := range map[string]string{
				"a": "node: {nodeIP: 192.0.2.9}\nnetwork: {serviceNetwork: [10.96.0.0/16]}\n",
				"b": "node: [\n",
			} {
				f.write(dir+"/config.yaml", text)
			}
		})
		defer f.stop()
		if f.loop.observer.observation.microShift.Computed.Internal == nil {
			t.Fatal("no internal addresses of the first directory")
		}
		at(f, "b")
		f.fileEvents <- struct{}{}
		idle(time.Second)
		if got := f.loop.observer.observation.microShift.Computed; got.Internal != nil || f.reason() != report.NoVIPs {
			t.Errorf("%+v, %s", got, f.reason())
		}
	})
}

// TestNodeAddressBesideVIPs: the node address is computed again even with configured VIPs,
// because the addresses on lo depend on it. The end of a default route causes no event.
func TestNodeAddressBesideVIPs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(f *fixture) {
			f.configure("vips: {api: [192.0.2.5], ingress: [192.0.2.6]}\nmicroshift: {directory: " +
				filepath.Join(f.dir, "usual") + ", manageAdvertiseAddress: true}\n")
			f.held = parsePrefixes("198.51.100.9/24 eth1")
			must(t, os.Mkdir(filepath.Join(f.dir, "usual"), 0o700))
			f.defaultLinks = []uint32{2}
		})
		defer f.stop()
		idle(time.Second)
		f.withLock(func() { f.defaultLinks = nil })
		idle(2 * nodeAddressRetry)
		if c := f.tracker.Report(report.Table{}).Condition(); !strings.Contains(c.Message,
			"the internal address of MicroShift's API server is not added to lo") {
			t.Errorf("%s: %s", c.Reason, c.Message)
		}
	})
}

// TestInternalAddressMovesToOtherLink: an internal address that moves from lo to another
// link, or gets another prefix length, is detected at once.
func TestInternalAddressMovesToOtherLink(t *testing.T) {
	for name, there := range map[string]string{"another link": "10.44.0.0/32 eth1", "a network": "10.44.0.0/24 lo"} {
		synctest.Test(t, func(t *testing.T) {
			f := startLoop(t, func(f *fixture) {
				f.microShift("usual", ", manageAdvertiseAddress: true")
				f.held = parsePrefixes("192.0.2.9/24 eth0", "10.44.0.0/32 lo")
				f.write("usual/config.yaml", "node: {nodeIP: 192.0.2.9}\n")
			})
			defer f.stop()
			f.withLock(func() { f.held[1], f.loopbackErr = parsePrefixes(there)[0], errors.New("somebody else has it") })
			f.addressEvents <- struct{}{}
			idle(time.Second)
			if c := f.tracker.Report(report.Table{}).Condition(); !strings.Contains(c.Message, "somebody else has it") {
				t.Errorf("%s: %s: %s", name, c.Reason, c.Message)
			}
		})
	}
}
