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

	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestInternalAddressRemembered: the last internal address of MicroShift is excluded, also
// after microshift.directory was removed, by this process and by the next.
func TestInternalAddressRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := t.TempDir()
		const given = "vips: {api: [10.97.0.0], ingress: [192.0.2.6]}\nmicroshift: {directory: \"\"}\n"
		begin := func(config string) *fixture {
			return startLoop(t, func(w *fixture) {
				w.stateDir = state
				w.configure(strings.ReplaceAll(config, "DIR", w.dir))
				w.held = parsePrefixes("192.0.2.9/24 eth0", "10.97.0.0/32 lo")
				w.write("ms/config.yaml", "node: {nodeIP: 192.0.2.9}\nnetwork: {serviceNetwork: [10.96.0.0/16]}\n")
			})
		}
		leftAlone := func(w *fixture, when string) {
			t.Helper()
			w.expect(when, report.NoVIPs, "10.97.0.0 is on lo as a single address")
		}
		w := begin("vips: {keepalivedConfig: DIR/none}\nmicroshift: {directory: DIR/ms}\n")
		if w.reason() != report.NotRequired {
			t.Errorf("%s", w.reason())
		}
		if err := os.Remove(filepath.Join(state, "microshift-in-force.json")); err != nil {
			t.Error(err)
		}
		w.configure(given)
		w.fileEvents <- struct{}{}
		idle(time.Second)
		leftAlone(w, "not looked at any more")
		w.stop()

		w = begin("vips: {keepalivedConfig: DIR/none}\nmicroshift: {directory: DIR/ms}\n")
		w.stop()
		w = begin(given)
		leftAlone(w, "in the next process")
		w.stop()
	})
}

// TestInternalAddressFromDefaultDirectory: the internal address of the default directory is
// excluded even if another directory or none is configured.
func TestInternalAddressFromDefaultDirectory(t *testing.T) {
	for directory, vip := range map[string]string{`""`: "10.97.0.0", "/nowhere": "10.97.0.0", "DIR/other": "10.97.0.0", `"" # kept`: "10.99.0.0"} {
		synctest.Test(t, func(t *testing.T) {
			w := startLoop(t, func(w *fixture) {
				w.held = parsePrefixes(vip + "/32 lo")
				for dir, network := range map[string]string{"usual": "10.96.0.0/16", "other": "10.40.0.0/16", "before": "10.98.0.0/16"} {
					w.write(dir+"/config.yaml", "node: {nodeIP: 192.0.2.9}\nnetwork: {serviceNetwork: ["+network+"]}\n")
				}
				before := microshift.NewReader(filepath.Join(w.dir, "before"), w.dir, microshift.NewStateFile(w.stateDir))
				before.Read(time.Now())
				must(t, before.Unsaved()())
				w.configure("vips: {api: [" + vip + "], ingress: [192.0.2.6]}\nmicroshift:\n  directory: " + strings.ReplaceAll(directory, "DIR", w.dir) + "\n")
			})
			defer w.stop()
			w.expect("directory "+directory, report.NoVIPs, vip+" is ")
		})
	}
}

// TestMicroShiftDirectoryChange: the result for one directory is not used for another.
func TestMicroShiftDirectoryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(w *fixture, dir string) {
			w.microShift(dir, ", manageAdvertiseAddress: true")
		}
		w := startLoop(t, func(w *fixture) {
			at(w, "a")
			w.held = parsePrefixes("192.0.2.9/24 eth0")
			for dir, text := range map[string]string{
				"a": "node: {nodeIP: 192.0.2.9}\nnetwork: {serviceNetwork: [10.96.0.0/16]}\n",
				"b": "node: [\n",
			} {
				w.write(dir+"/config.yaml", text)
			}
		})
		defer w.stop()
		if w.loop.observer.observation.microShift.computed.Internal == nil {
			t.Fatal("no internal addresses of the first directory")
		}
		at(w, "b")
		w.fileEvents <- struct{}{}
		idle(time.Second)
		if got := w.loop.observer.observation.microShift.computed; got.Internal != nil || w.reason() != report.NoVIPs {
			t.Errorf("%+v, %s", got, w.reason())
		}
	})
}

// TestNodeAddressBesideVIPs: the node address is computed again even with configured VIPs,
// because the addresses on lo depend on it. The end of its timeout causes no event.
func TestNodeAddressBesideVIPs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startLoop(t, func(w *fixture) {
			w.configure("vips: {api: [192.0.2.5], ingress: [192.0.2.6]}\nmicroshift: {directory: " + filepath.Join(w.dir, "usual") + ", manageAdvertiseAddress: true}\n")
			w.held = parsePrefixes("198.51.100.9/24 eth1")
			must(t, os.Mkdir(filepath.Join(w.dir, "usual"), 0o700))
			w.write("route", defaultRoute)
		})
		defer w.stop()
		idle(nodeAddressTimeout + 2*nodeAddressRetry)
		if c := w.tracker.Report(report.Table{}).Condition(); !strings.Contains(c.Message, "10.44.0.0, the internal address of MicroShift's API server, is not added to lo") {
			t.Errorf("%s: %s", c.Reason, c.Message)
		}
	})
}

// TestInternalAddressMovesToOtherLink: an internal address that moves from lo to another
// link, or gets another prefix length, is detected at once.
func TestInternalAddressMovesToOtherLink(t *testing.T) {
	for name, there := range map[string]string{"another link": "10.44.0.0/32 eth1", "a network": "10.44.0.0/24 lo"} {
		synctest.Test(t, func(t *testing.T) {
			w := startLoop(t, func(w *fixture) {
				w.microShift("usual", ", manageAdvertiseAddress: true")
				w.held = parsePrefixes("192.0.2.9/24 eth0", "10.44.0.0/32 lo")
				w.write("usual/config.yaml", "node: {nodeIP: 192.0.2.9}\n")
			})
			defer w.stop()
			w.withLock(func() { w.held[1], w.loopbackErr = parsePrefixes(there)[0], errors.New("somebody else has it") })
			w.addressEvents <- struct{}{}
			idle(time.Second)
			if c := w.tracker.Report(report.Table{}).Condition(); !strings.Contains(c.Message, "somebody else has it") {
				t.Errorf("%s: %s: %s", name, c.Reason, c.Message)
			}
		})
	}
}
