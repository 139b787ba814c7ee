// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"io/fs"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/socketowner"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// programName is the process name in the kernel.
const programName = "http01-proxyd"

// CheckPorts checks which programs use the internal port and the metrics port. idle means
// that the service listens on no port.
func (s *Service) CheckPorts(c config.Config, idle bool) result.Result {
	r := s.checkInternalPort(c.InternalPort, idle)
	if f, taken := metricsPortFinding(c.Metrics.ListenAddress); taken {
		more := result.Of(append(r.Findings, f)...)
		more.NotChecked = r.NotChecked
		if r.Outcome == report.CheckSkipped {
			more.NotChecked = r.Text
		}
		return more
	}
	return r
}

// isService reports whether the owner of a socket is the service. Sockets that systemd stores for it
// were created in its cgroup.
func isService(owner string) bool {
	return strings.Contains(owner, Name) || strings.Contains(owner, "("+programName+")")
}

// metricsPortFinding checks whether another program uses the metrics port.
func metricsPortFinding(at netip.AddrPort) (findings.Finding, bool) {
	if !at.IsValid() {
		return findings.Finding{}, false
	}
	owner, listens, _ := socketowner.DescribeTCPPort(at.Port())
	if !listens || isService(owner) {
		return findings.Finding{}, false
	}
	values := portValues(at.Port(), owner).With("address", at.String())
	return findings.New(findings.MetricsPortInUse, values), true
}

// portValues are the values of a finding about a port. A command stops the pod of the owner, or else
// its unit, or else its process.
func portValues(port uint16, owner string) findings.Values {
	values := findings.Values{"port": strconv.Itoa(int(port)), "owner": owner}
	for _, f := range [][2]string{
		{"pod", `, pod ([0-9a-f-]{32,36}) `},
		{"unit", `(?:^|\) of )unit ([\w@.:-]+\.(?:service|socket)) `},
		{"pid", `^process (\d+) `},
	} {
		if found := regexp.MustCompile(f[1]).FindStringSubmatch(owner); found != nil {
			values[f[0]] = found[1]
			break
		}
	}
	return values
}

func (s *Service) checkInternalPort(port uint16, idle bool) result.Result {
	reason, _ := s.State()
	owner, listens, err := socketowner.DescribeTCPPort(port)
	taken := result.Found(findings.PortInUse, portValues(port, owner))
	switch {
	case reason == report.PortInUse:
		return taken
	case idle:
		return result.Nothing("the service listens on no port (see vips and config)")
	case reason != "":
		return result.Pass("no other program uses port %d", port)
	case err != nil:
		return result.Skip("%v", err)
	case !listens:
		return result.Pass("port %d is free for the service", port)
	case isService(owner):
		return result.Pass("port %d belongs to the service: %s", port, owner)
	case errors.Is(s.reportError(), fs.ErrPermission):
		return result.Skip("port %d is in use by %s; only root can identify the service", port, owner)
	default:
		return taken
	}
}
