// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
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

// Source is where the state of the service comes from.
type Source struct {
	Report func() (report.Report, error) // queries the service, each time
	Unit   func() (systemd.Unit, error)
	// Held are those of some VIPs that this host holds now, or all if that is unknown.
	Held func([]netip.Addr) []netip.Addr
}

// NewSource is the service of this host.
func NewSource(ctx context.Context, socket string, held func([]netip.Addr) []netip.Addr) Source {
	return Source{
		Report: func() (report.Report, error) {
			ctx, cancel := context.WithTimeout(ctx, ReportTimeout)
			defer cancel()
			return client.Fetch(ctx, socket)
		},
		Unit: func() (systemd.Unit, error) {
			ctx, cancel := context.WithTimeout(ctx, unitTimeout)
			defer cancel()
			return systemd.QueryUnit(ctx, Name)
		},
		Held: held,
	}
}

// Service is the service as this host sees it.
type Service struct {
	Privileged bool
	Report     func() (report.Report, error) // the first one, requested after the addresses were read
	unit       func() (systemd.Unit, error)
	unnoticed  func() []netip.Addr
}

// QueryOnce starts a query to the service. The returned function awaits its report.
func (s Source) QueryOnce() func() (report.Report, error) {
	first := sync.OnceValues(s.Report)
	go func() { _, _ = first() }()
	return first
}

// New is the service with this first report, on a host that holds these VIPs.
func New(ctx context.Context, s Source, first func() (report.Report, error), held []netip.Addr,
	privileged bool,
) *Service {
	v := &Service{Privileged: privileged, Report: first, unit: sync.OnceValues(s.Unit)}
	v.unnoticed = sync.OnceValue(func() []netip.Addr {
		if reason, _ := v.State(); reason != report.Standby || len(held) == 0 {
			return nil
		}
		return s.findUnnoticed(ctx, held)
	})
	return v
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
	if unnoticed := s.unnoticed(); len(unnoticed) > 0 {
		reported += ", but this host holds " + result.JoinAddresses(unnoticed)
	}
	err := s.reportError()
	switch {
	case s.isReady():
		return result.PassUnless(readSELinux(programPath).unitFindings(), "%s", reported)
	case reason == "" && errors.Is(err, fs.ErrPermission) && s.mayRun():
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
		return result.Found(findings.ServiceNotRunning, findings.Values{"state": s.unitState()})
	default:
		f := findings.New(findings.ServiceNotReady, findings.Values{"state": reported})
		// Other checks may have found the cause. A file that root can read may be
		// inaccessible to the service's user.
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

// isReady reports whether the service is ready and has noticed all VIPs on this host.
func (s *Service) isReady() bool {
	reason, _ := s.State()
	return reason.Ready() && len(s.unnoticed()) == 0
}

// reactionTime is the time in which the service must detect and serve a new VIP.
const reactionTime = 500 * time.Millisecond

// findUnnoticed distinguishes a service that misses VIPs, which this host holds while it
// reports standby, from one that was queried while a VIP moved. A VIP counts only if this
// host holds it before and after the service reports standby, twice.
func (s Source) findUnnoticed(ctx context.Context, vips []netip.Addr) []netip.Addr {
	vips = s.Held(vips)
	if len(vips) == 0 {
		return nil
	}
	wait := time.NewTimer(reactionTime)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return vips
	case <-wait.C:
	}
	if again, err := s.Report(); err == nil && again.Condition().Reason != report.Standby {
		return nil
	}
	return s.Held(vips)
}

// reasonCauses are the findings of other checks that explain a state of the service.
func reasonCauses(reason report.Reason) []findings.ID {
	switch reason {
	case report.InvalidConfig:
		return []findings.ID{findings.ConfigInvalid, findings.ConfigUnreadable}
	case report.NoVIPs, report.ExternalLoadBalancer:
		return []findings.ID{
			findings.KeepalivedConfigMissing, findings.KeepalivedConfigIncomplete, findings.KeepalivedConfigUnreadable,
			findings.KeepalivedNoAPIInstance,
			findings.IngressVIPMissing, findings.KubeVIPUnusable, findings.VIPsUserManaged,
			findings.MicroShiftConfigInvalid, findings.MicroShiftNodeAddressInternal, findings.MicroShiftNodeAddressMissing,
		}
	case report.NftablesUnavailable:
		return []findings.ID{findings.NftablesUnsupported, findings.NftablesRejected}
	case report.Disabled:
		return []findings.ID{findings.Disabled}
	case report.PortInUse:
		return []findings.ID{findings.PortInUse}
	case report.UpstreamUnreachable:
		return []findings.ID{
			findings.VIPUnassigned, findings.VIPDuplicate, findings.VIPLinkDown, findings.ConntrackDrops,
			findings.LocalResources,
			findings.IngressNoAddress, findings.IngressRefused, findings.IngressTimeout, findings.IngressUnreachable,
			findings.IngressResetConnection,
			findings.EgressUnreachable, findings.EgressTLS, findings.EgressAuth, findings.EgressDenied,
			findings.EgressNotReady, findings.EgressCAInvalid,
			findings.MicroShiftRouterRemoved, findings.MicroShiftRouterNoAddress, findings.MicroShiftRouterUnreachable,
		}
	default:
		return nil
	}
}

// mayRun reports whether the service may be running, according to systemd.
func (s *Service) mayRun() bool {
	u, err := s.unit()
	return err != nil || u.ActiveState == "active" || u.ActiveState == "reloading"
}

// unitState describes the state of the unit.
func (s *Service) unitState() string {
	u, err := s.unit()
	if err != nil {
		return systemMessage(s.reportError())
	}
	return describeUnit(u)
}

// programPath is the path of the program in the unit, or of the installer.
func (s *Service) programPath() string {
	u, _ := s.unit()
	return cmp.Or(u.ExecPath, programPath)
}
