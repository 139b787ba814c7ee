// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestNoVIPsMessages: the messages on a host with keepalived's static pod, while
// keepalived.conf is created, incomplete and deleted again.
func TestNoVIPsMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(f *fixture) {
			f.configure("vips: {keepalivedConfig: " + filepath.Join(f.dir, "keepalived.conf") + "}\n")
			f.write("manifests/keepalived.yaml", "kind: Pod\n")
		})
		const orphan = "vrrp_instance lab_API_0 {\n  interface lo\n  virtual_ipaddress {\n    192.0.2.5/32\n  }\n}\n"
		for _, step := range []struct{ state, conf, message, not string }{
			{"absent", "", "although keepalived's static pod does", "platform"},
			{"no ingress", orphan, "has API VIP 192.0.2.5 but no ingress VIP", "stay in use"},
			{"half-written", orphan[:40], "is incomplete", "has API VIP"},
			{"no ingress again", orphan, "has API VIP 192.0.2.5 but no ingress VIP", "is incomplete"},
			{"gone", "", "although keepalived's static pod does", "has API VIP"},
		} {
			if step.conf == "" {
				_ = os.Remove(filepath.Join(f.dir, "keepalived.conf"))
			} else {
				f.write("keepalived.conf", step.conf)
			}
			f.fileEvents <- struct{}{}
			idle(5 * time.Second)
			if c := f.expect(step.state, report.NoVIPs, step.message); strings.Contains(c.Message, step.not) {
				t.Errorf("%s: %s: %s", step.state, c.Reason, c.Message)
			}
		}
		f.stop()
	})
}

// TestSingleNodeBecomesThree: NotRequired ends when VIPs appear, without a restart.
func TestSingleNodeBecomesThree(t *testing.T) {
	t.Parallel()
	shared := strings.ReplaceAll(twoInstances, "192.0.2.6", "192.0.2.5")
	for name, before := range map[string]string{"without VIPs": "", "with one VIP for API and ingress": shared} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := startLoop(t, func(f *fixture) {
					f.keepalived(before)
					if before == "" {
						must(t, os.Remove(filepath.Join(f.dir, "keepalived.conf")))
					}
				})
				defer f.stop()
				f.expect("a single node", report.NotRequired, "")
				if before == "" { // otherwise it is there already
					f.write("manifests/keepalived.yaml", "kind: Pod\n")
					f.fileEvents <- struct{}{}
					synctest.Wait()
					f.expect("before the pod has written its file", report.NoVIPs, "although keepalived's static pod does")
				}
				f.write("keepalived.conf", twoInstances)
				f.fileEvents <- struct{}{}
				synctest.Wait()
				f.expect("with keepalived's file", report.Standby, "not on this host: 192.0.2.5")
				f.withLock(func() { f.held = []address.Address{{IP: netip.MustParseAddr("192.0.2.5")}} })
				f.addressEvents <- struct{}{}
				synctest.Wait()
				f.expect("with the VIP", report.Serving, "holds 192.0.2.5")
			})
		})
	}
}
