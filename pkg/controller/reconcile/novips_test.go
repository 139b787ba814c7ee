// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
