// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/unit"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/socketowner"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

// programName is the process name in the kernel.
const programName = "http01-proxyd"

// checkPorts checks which programs use the internal port and the metrics port.
func checkPorts(_ context.Context, h *host) Result {
	r := checkInternalPort(h)
	if f, taken := metricsPortFinding(h.config.Metrics.ListenAddress); taken {
		more := findingsResult(append(r.Findings, f), "")
		more.NotChecked = r.NotChecked
		if r.Outcome == Skipped {
			more.NotChecked = r.Text
		}
		return more
	}
	return r
}

// metricsPortFinding checks whether another program uses the metrics port.
func metricsPortFinding(at netip.AddrPort) (findings.Finding, bool) {
	if !at.IsValid() {
		return findings.Finding{}, false
	}
	if listens, err := socketowner.IsListening(at.Port()); err != nil || !listens {
		return findings.Finding{}, false
	}
	owner := socketowner.DescribeTCPPort(at.Port())
	if strings.Contains(owner, unit.Name) || strings.Contains(owner, "("+programName+")") {
		return findings.Finding{}, false
	}
	return findings.New(findings.MetricsPortInUse, findings.Values{"address": at.String(), "owner": owner}), true
}

func checkInternalPort(h *host) Result {
	port := h.config.InternalPort
	reason, _ := h.serviceState()
	taken := func() Result {
		return findingsResult([]findings.Finding{findings.New(findings.PortInUse, findings.Values{"port": strconv.Itoa(int(port)), "owner": socketowner.DescribeTCPPort(port)})}, "")
	}
	switch {
	case reason == report.PortInUse:
		return taken()
	case !h.config.Enabled() || h.noUsableVIPs():
		return skippedResult("the service listens on no port (see vips and config)")
	case reason != "":
		return okResult("no other program uses port %d", port)
	}
	listens, err := socketowner.IsListening(port)
	switch {
	case err != nil:
		return skippedResult("%v", err)
	case !listens:
		return okResult("port %d is free for the service", port)
	}
	// Sockets that systemd stores for the service were created in its cgroup.
	owner := socketowner.DescribeTCPPort(port)
	_, err = h.report()
	switch {
	case strings.Contains(owner, unit.Name):
		return okResult("port %d belongs to the service: %s", port, owner)
	case errors.Is(err, client.ErrInvalidReport):
		return skippedResult("the service runs, but its report is not readable; port %d is in use by %s", port, owner)
	case h.serviceUnresponsive():
		return skippedResult("the service does not respond; port %d is in use by %s", port, owner)
	case errors.Is(err, fs.ErrPermission):
		return skippedResult("port %d is in use by %s; only root can identify the service", port, owner)
	default:
		return taken()
	}
}
