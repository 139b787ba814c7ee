// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/socketowner"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	unitName    = "http01-proxyd.service" // as systemd calls the service
	programName = "http01-proxyd"         // as the kernel calls its processes
)

// checkPort looks who has the internal port, and that of the metrics.
func checkPort(_ context.Context, h *host) Result {
	r := internalPort(h)
	if f, taken := metricsTaken(h.config.Metrics.ListenAddress); taken {
		more := found(append(r.Findings, f), "")
		more.Unseen = r.Unseen
		if r.Outcome == Skipped {
			more.Unseen = r.Text
		}
		return more
	}
	return r
}

// metricsTaken looks whether somebody else has the port on which the service is to
// serve its metrics.
func metricsTaken(at netip.AddrPort) (findings.Finding, bool) {
	if !at.IsValid() {
		return findings.Finding{}, false
	}
	if listens, err := socketowner.Listens(at.Port()); err != nil || !listens {
		return findings.Finding{}, false
	}
	who := socketowner.OfTCPPort(at.Port())
	if strings.Contains(who, unitName) || strings.Contains(who, "("+programName+")") {
		return findings.Finding{}, false
	}
	return findings.Find(findings.MetricsPortTaken, "address", at.String(), "holder", who), true
}

func internalPort(h *host) Result {
	port := h.config.InternalPort
	reason, _ := h.state()
	taken := func() Result {
		return found([]findings.Finding{findings.Find(findings.PortTaken, "port", strconv.Itoa(int(port)), "holder", socketowner.OfTCPPort(port))}, "")
	}
	switch {
	case reason == report.PortInUse:
		return taken()
	case !h.config.Enabled() || h.vipless():
		return skipped("the service listens on no port: see vips and config")
	case reason != "":
		return fine("nobody takes port %d from the service", port)
	}
	listens, err := socketowner.Listens(port)
	switch {
	case err != nil:
		return skipped("%v", err)
	case !listens:
		return fine("port %d is free for the service", port)
	}
	// Sockets that systemd keeps for the service were made in its cgroup.
	who := socketowner.OfTCPPort(port)
	_, err = h.service()
	switch {
	case strings.Contains(who, unitName):
		return fine("port %d is the service's: %s", port, who)
	case errors.Is(err, report.ErrInvalidReport):
		return skipped("the service runs, and its report does not say whether it has port %d; %s has", port, who)
	case h.hangs():
		return skipped("the service does not answer whether it has port %d; %s has", port, who)
	case errors.Is(err, fs.ErrPermission):
		return skipped("port %d is taken by %s; only root can tell whether that is the service", port, who)
	default:
		return taken()
	}
}
