// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// microShiftUnit is a host whose MicroShift is restarted. The lab has no systemd, so the
// test writes systemd's link for the unit. test/support/host tests the real links.
type microShiftUnit struct {
	*host

	systemd string // in place of /run/systemd
}

func (h *microShiftUnit) link() string {
	return filepath.Join(h.systemd, "units", "invocation:microshift.service")
}

// stopUnit simulates systemctl stop microshift.
func (h *microShiftUnit) stopUnit() { must(h.t, os.Remove(h.link())) }

// startUnit simulates systemctl start microshift.
func (h *microShiftUnit) startUnit(invocation string) { must(h.t, os.Symlink(invocation, h.link())) }

// startWithUnit runs the service with the links until the test ends.
func (h *microShiftUnit) startWithUnit() *lab.Service {
	h.t.Helper()
	return h.launch(lab.ServiceOptions{
		Config: h.config(""),
		Wrap:   []string{"unshare", "--mount", "--propagation", "private", "sh", "-c", `mkdir -p /run/systemd && mount --bind "$0" /run/systemd && exec "$@"`, h.systemd},
	})
}

// awaitState waits for a state whose message names a changed file, or none.
func (h *microShiftUnit) awaitState(s *lab.Service, reason string, changed bool) {
	h.t.Helper()
	h.awaitCondition(s, reason, func(message string) bool {
		return strings.Contains(message, "changed since MicroShift was started") == changed
	})
}

// TestChangedBeforeStart holds that MicroShift has read files that changed just before its
// start.
func TestChangedBeforeStart(t *testing.T) {
	h := &microShiftUnit{open(t, lab.LinkNIC), t.TempDir()}
	must(t, os.MkdirAll(filepath.Dir(h.link()), 0o755))
	h.restartRouter(lab.RouterOptions{Port: 8080})
	h.writeMicroShiftFile("config.yaml", "node: {nodeIP: "+h.v4().String()+"}\n")
	h.startUnit("1")
	s := h.startWithUnit()
	h.awaitState(s, "NotRequired", false)

	dropIn := filepath.Join("config.d", "10-ingress.yaml")
	h.stopUnit()
	h.writeMicroShiftFile(dropIn, "ingress: {ports: {http: 8080}}\n")
	h.startUnit("2")
	h.awaitState(s, "Serving", false)
	h.writeMicroShiftFile("config.yaml", "node: {}\n")
	h.awaitState(s, "Serving", true)
	must(t, s.Stop(t.Context()))
	s = h.startWithUnit()
	h.awaitState(s, "Serving", true)

	// A removed file takes effect later.
	h.stopUnit()
	must(t, os.Remove(filepath.Join(h.dir(), dropIn)))
	h.startUnit("3")
	h.awaitState(s, "NotRequired", false)
	h.writeMicroShiftFile(dropIn, "ingress: {ports: {http: 8080}}\n")
	h.awaitState(s, "NotRequired", true)
	must(t, s.Stop(t.Context()))
	h.awaitState(h.startWithUnit(), "NotRequired", true)
}
