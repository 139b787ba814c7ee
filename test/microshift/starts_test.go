// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/lab"
)

// starting is a host whose MicroShift is started over and over. The lab has no systemd:
// its link for the unit is written here, and what systemd makes of it is seen in
// test/host.
type starting struct {
	*host

	systemd string // stands for /run/systemd
}

func (h *starting) link() string {
	return filepath.Join(h.systemd, "units", "invocation:microshift.service")
}

// stops is systemctl stop microshift.
func (h *starting) stops() { must(h.t, os.Remove(h.link())) }

// starts is systemctl start microshift.
func (h *starting) starts(invocation string) { must(h.t, os.Symlink(invocation, h.link())) }

// service runs until the test ends, or is stopped, and sees the links.
func (h *starting) service() *lab.Service {
	h.t.Helper()
	return h.launch(lab.ServiceOptions{
		Config: h.config(""),
		Wrap:   []string{"unshare", "--mount", "--propagation", "private", "sh", "-c", `mkdir -p /run/systemd && mount --bind "$0" /run/systemd && exec "$@"`, h.systemd},
	})
}

// is waits for a state that tells of a changed file, or of none.
func (h *starting) is(s *lab.Service, reason string, changed bool) {
	h.t.Helper()
	h.awaits(s, reason, func(message string) bool {
		return strings.Contains(message, "changed since MicroShift was started") == changed
	})
}

// TestStartedAtOnce: files that are changed just before MicroShift is started are what
// it has read.
func TestStartedAtOnce(t *testing.T) {
	h := &starting{open(t, lab.LinkNIC), t.TempDir()}
	must(t, os.MkdirAll(filepath.Dir(h.link()), 0o755))
	h.router(lab.RouterOptions{Port: 8080})
	h.microshift("config.yaml", "node: {nodeIP: "+h.v4().String()+"}\n")
	h.starts("1")
	s := h.service()
	h.is(s, "NotRequired", false)

	dropIn := filepath.Join("config.d", "10-ingress.yaml")
	h.stops()
	h.microshift(dropIn, "ingress: {ports: {http: 8080}}\n")
	h.starts("2")
	h.is(s, "Serving", false)
	h.microshift("config.yaml", "node: {}\n")
	h.is(s, "Serving", true)
	must(t, s.Stop(t.Context()))
	s = h.service()
	h.is(s, "Serving", true)

	// A file that is gone takes longer to count.
	h.stops()
	must(t, os.Remove(filepath.Join(h.dir(), dropIn)))
	h.starts("3")
	h.is(s, "NotRequired", false)
	h.microshift(dropIn, "ingress: {ports: {http: 8080}}\n")
	h.is(s, "NotRequired", true)
	must(t, s.Stop(t.Context()))
	h.is(h.service(), "NotRequired", true)
}
