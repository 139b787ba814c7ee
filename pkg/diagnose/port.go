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
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

const (
	unitName    = "http01-proxyd.service" // as systemd calls the service
	programName = "http01-proxyd"         // as the kernel calls its processes
)

// checkPorts looks who has the internal port, and that of the metrics.
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

// metricsPortFinding looks whether somebody else has the port on which the service is to
// serve its metrics.
func metricsPortFinding(at netip.AddrPort) (findings.Finding, bool) {
	if !at.IsValid() {
		return findings.Finding{}, false
	}
	if listens, err := socketowner.IsListening(at.Port()); err != nil || !listens {
		return findings.Finding{}, false
	}
	who := socketowner.DescribeTCPPort(at.Port())
	if strings.Contains(who, unitName) || strings.Contains(who, "("+programName+")") {
		return findings.Finding{}, false
	}
	return findings.New(findings.MetricsPortInUse, "address", at.String(), "holder", who), true
}

func checkInternalPort(h *host) Result {
	port := h.config.InternalPort
	reason, _ := h.serviceState()
	taken := func() Result {
		return findingsResult([]findings.Finding{findings.New(findings.PortInUse, "port", strconv.Itoa(int(port)), "holder", socketowner.DescribeTCPPort(port))}, "")
	}
	switch {
	case reason == report.PortInUse:
		return taken()
	case !h.config.Enabled() || h.noUsableVIPs():
		return skippedResult("the service listens on no port: see vips and config")
	case reason != "":
		return okResult("nobody takes port %d from the service", port)
	}
	listens, err := socketowner.IsListening(port)
	switch {
	case err != nil:
		return skippedResult("%v", err)
	case !listens:
		return okResult("port %d is free for the service", port)
	}
	// Sockets that systemd keeps for the service were made in its cgroup.
	who := socketowner.DescribeTCPPort(port)
	_, err = h.report()
	switch {
	case strings.Contains(who, unitName):
		return okResult("port %d is the service's: %s", port, who)
	case errors.Is(err, client.ErrInvalidReport):
		return skippedResult("the service runs, and its report does not say whether it has port %d; %s has", port, who)
	case h.serviceUnresponsive():
		return skippedResult("the service does not answer whether it has port %d; %s has", port, who)
	case errors.Is(err, fs.ErrPermission):
		return skippedResult("port %d is taken by %s; only root can tell whether that is the service", port, who)
	default:
		return taken()
	}
}
