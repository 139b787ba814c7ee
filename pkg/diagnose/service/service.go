// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

const (
	unitTimeout = 1500 * time.Millisecond // for the query to systemd
	// ReportTimeout bounds the query to the service, which responds at once unless it
	// hangs.
	ReportTimeout = 3 * time.Second
)

// Query queries the service with this status socket.
func Query(ctx context.Context, socket string) (report.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, ReportTimeout)
	defer cancel()
	return client.Fetch(ctx, socket)
}

// Service is the service as this host sees it.
type Service struct {
	Privileged bool
	Report     func() (report.Report, error) // the first one, requested after the addresses were read
	unit       func() (systemd.Unit, error)
}

// New starts a query to the service of this host.
func New(ctx context.Context, socket string, privileged bool) *Service {
	s := &Service{Privileged: privileged}
	s.Report = sync.OnceValues(func() (report.Report, error) { return Query(ctx, socket) })
	s.unit = sync.OnceValues(func() (systemd.Unit, error) {
		ctx, cancel := context.WithTimeout(ctx, unitTimeout)
		defer cancel()
		return systemd.QueryUnit(ctx, Name)
	})
	go func() { _, _ = s.Report() }()
	return s
}

// State is reason and message that the running service reports; empty if it does not
// respond.
func (s *Service) State() (report.Reason, string) {
	reported, err := s.Report()
	if err != nil {
		return "", ""
	}
	return reported.Condition().Reason, reported.Condition().Message
}

// IsServing reports whether the service reports that it serves.
func (s *Service) IsServing() bool {
	reason, _ := s.State()
	return reason == report.Serving || reason == report.UpstreamUnreachable
}

// Check evaluates the service's own report. If the service is not ready, it also
// evaluates its unit and SELinux.
func (s *Service) Check() result.Result {
	reason, message := s.State()
	reported := fmt.Sprintf("%s: %s", reason, message)
	err := s.reportError()
	switch {
	case reason.Ready():
		return result.PassUnless(readSELinux(programPath).unitFindings(), "%s", reported)
	case errors.Is(err, fs.ErrPermission):
		return result.Skip("only root can query the service")
	case errors.Is(err, client.ErrInvalidReport):
		return result.Found(findings.ServiceReportUnreadable, findings.Values{"error": err.Error()})
	}
	if findings := readSELinux(s.programPath()).findings(s.programPath()); len(findings) > 0 {
		return result.Of(findings...)
	}
	switch {
	case s.isUnresponsive():
		return result.Found(findings.ServiceUnresponsive, findings.Values{"state": err.Error()})
	case reason == "":
		values := findings.Values{"state": s.unitState()}
		if u, _ := s.unit(); u.ActiveState == "failed" { // the start limit may prevent another start
			values["failed"] = Name
		}
		return result.Found(findings.ServiceNotRunning, values)
	default:
		f := findings.New(findings.ServiceNotReady, findings.Values{"state": reported})
		// Other checks may report the cause. The service's user may not be able to read a file
		// that root can read.
		f.CausedBy = reasonCauses(reason)
		return result.Of(f)
	}
}

// reportError is the reason why the service sent no report, or nil.
func (s *Service) reportError() error {
	_, err := s.Report()
	return err
}

// isUnresponsive reports whether the service runs but does not respond.
func (s *Service) isUnresponsive() bool {
	err := s.reportError()
	var timeout net.Error
	switch {
	case err == nil, errors.Is(err, fs.ErrPermission), errors.Is(err, client.ErrInvalidReport):
		return false
	case errors.As(err, &timeout) && timeout.Timeout():
		return true
	default:
		u, unknown := s.unit()
		return unknown == nil && u.ActiveState == "active"
	}
}

// reasonCauses are the problems that explain a state of the service.
func reasonCauses(reason report.Reason) (causes []findings.ID) {
	var checks []string
	switch reason {
	case report.InvalidConfig, report.Disabled:
		checks = []string{"config"}
	case report.NoVIPs, report.ExternalLoadBalancer:
		checks = []string{"vips"}
	case report.NftablesUnavailable:
		checks = []string{"nftables"}
	case report.PortInUse:
		checks = []string{"port"}
	case report.UpstreamUnreachable:
		checks = []string{"vips", "vip-holder", "ingress", "egress-proxy"}
	default:
	}
	for _, e := range findings.All() {
		if e.Level == findings.Problem && slices.Contains(checks, e.Check) {
			causes = append(causes, e.ID)
		}
	}
	return causes
}

// unitState describes the state of the unit.
func (s *Service) unitState() string {
	u, err := s.unit()
	if err != nil {
		return s.reportError().Error()
	}
	return describeUnit(u)
}

// programPath is the path of the program in the unit, or of the installer.
func (s *Service) programPath() string {
	u, _ := s.unit()
	return cmp.Or(u.ExecPath, programPath)
}
