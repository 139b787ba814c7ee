// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/unit"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

// checkService evaluates the service's own report. If the service is not ready, it also
// evaluates its unit and SELinux.
func checkService(_ context.Context, h *host) Result {
	reason, message := h.serviceState()
	reported := fmt.Sprintf("%s: %s", reason, message)
	if unnoticed := h.unnoticedVIPs(); len(unnoticed) > 0 {
		reported += ", but this host holds " + joinAddresses(unnoticed)
	}
	switch {
	case h.serviceReady():
		return okResult("%s", reported)
	case reason == "" && errors.Is(h.reportError(), fs.ErrPermission) && h.mayRun():
		return skippedResult("only root can query the service")
	}
	if errors.Is(h.reportError(), client.ErrInvalidReport) {
		return findingsResult([]findings.Finding{findings.New(findings.ServiceReportUnreadable, findings.Values{"error": h.reportError().Error()})}, "")
	}
	if findings := h.sandboxFindings(); len(findings) > 0 {
		return findingsResult(findings, "")
	}
	switch {
	case h.serviceUnresponsive():
		return findingsResult([]findings.Finding{findings.New(findings.ServiceUnresponsive, findings.Values{"state": h.reportError().Error()})}, "")
	case reason == "":
		return findingsResult([]findings.Finding{findings.New(findings.ServiceNotRunning, findings.Values{"state": h.unitState()})}, "")
	default:
		f := findings.New(findings.ServiceNotReady, findings.Values{"state": reported})
		// Other checks may have found the cause. A file that root can read may be
		// inaccessible to the service's user.
		f.CausedBy = reasonCauses(reason)
		return findingsResult([]findings.Finding{f}, "")
	}
}

// reportError is the reason why the service sent no report, or nil.
func (h *host) reportError() error {
	_, err := h.report()
	return err
}

// serviceUnresponsive reports whether the service runs but does not respond.
func (h *host) serviceUnresponsive() bool {
	err := h.reportError()
	var timeout net.Error
	switch {
	case err == nil, errors.Is(err, fs.ErrPermission), errors.Is(err, client.ErrInvalidReport):
		return false
	case errors.As(err, &timeout) && timeout.Timeout():
		return true
	default:
		u, unknown := h.unit()
		return unknown == nil && u.ActiveState == "active"
	}
}

// serviceReady reports whether the service is ready and has noticed all VIPs on this
// host.
func (h *host) serviceReady() bool {
	reason, _ := h.serviceState()
	return reason.Ready() && len(h.unnoticedVIPs()) == 0
}

// unnoticedVIPs are VIPs that this host holds while the service reports standby.
func (h *host) unnoticedVIPs() []netip.Addr {
	if reason, _ := h.serviceState(); reason != report.Standby || len(h.ownership.Held) == 0 {
		return nil
	}
	return h.stillUnnoticed()
}

// reactionTime is the time in which the service must detect and serve a new VIP.
const reactionTime = 500 * time.Millisecond

// findStillUnnoticed distinguishes a service that misses a VIP from one that was
// queried while a VIP moved. A VIP counts only if this host holds it before and after
// the service reports standby, twice.
func (h *host) findStillUnnoticed(ctx context.Context) []netip.Addr {
	vips := h.stillHeld(h.ownership.Held)
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
	if again, err := h.fetchReport(); err == nil && again.Condition().Reason != report.Standby {
		return nil
	}
	return h.stillHeld(vips)
}

// stillHeld are the VIPs that this host still holds; all of them if its addresses
// cannot be read.
func (h *host) stillHeld(vips []netip.Addr) []netip.Addr {
	now, err := h.readAddresses()
	if err != nil {
		return vips
	}
	return ownership.Decide(vips, nil, ownershipAddresses(now)).Held
}

// reasonCauses are the findings of other checks that explain a state of the service.
func reasonCauses(reason report.Reason) []findings.ID {
	switch reason {
	case report.InvalidConfig:
		return []findings.ID{findings.ConfigInvalid, findings.ConfigUnreadable}
	case report.NoVIPs, report.ExternalLoadBalancer:
		return []findings.ID{
			findings.KeepalivedConfigMissing, findings.KeepalivedConfigIncomplete, findings.KeepalivedConfigUnreadable, findings.KeepalivedNoAPIInstance,
			findings.IngressVIPMissing, findings.VIPsUserManaged,
			findings.MicroShiftConfigInvalid, findings.MicroShiftNodeAddressInternal, findings.MicroShiftNodeAddressMissing,
		}
	case report.NftablesUnavailable:
		return []findings.ID{findings.NftablesUnsupported, findings.NftablesPermissionDenied, findings.NftablesRejected}
	case report.Disabled:
		return []findings.ID{findings.Disabled}
	case report.PortInUse:
		return []findings.ID{findings.PortInUse}
	case report.UpstreamUnreachable:
		return []findings.ID{
			findings.VIPUnassigned, findings.VIPDuplicate, findings.VIPLinkDown, findings.ConntrackDrops, findings.LocalResources,
			findings.IngressNoAddress, findings.IngressRefused, findings.IngressTimeout, findings.IngressUnreachable, findings.IngressResetConnection,
			findings.EgressUnreachable, findings.EgressTLS, findings.EgressAuth, findings.EgressDenied,
			findings.EgressNotReady, findings.EgressCAInvalid,
			findings.MicroShiftRouterRemoved, findings.MicroShiftRouterNoAddress, findings.MicroShiftRouterUnreachable,
		}
	default:
		return nil
	}
}

// mayRun reports whether the service may be running, according to systemd.
func (h *host) mayRun() bool {
	u, err := h.unit()
	return err != nil || u.ActiveState == "active" || u.ActiveState == "reloading"
}

// unitState describes the state of the unit.
func (h *host) unitState() string {
	u, err := h.unit()
	if err != nil {
		return systemMessage(h.reportError())
	}
	return unit.Describe(u)
}

// sandboxFindings are the permissions that a service that is not ready lacks.
func (h *host) sandboxFindings() []findings.Finding {
	var matches []findings.Finding
	if denied := h.deniedBySandbox(); len(denied) > 0 {
		u, _ := h.unit()
		source := "the unit itself"
		if len(u.DropIns) > 0 {
			source = "the drop-in (" + strings.Join(u.DropIns, ", ") + ")"
		}
		matches = append(matches, findings.New(findings.SandboxDenies, findings.Values{"what": strings.Join(denied, "; "), "source": source}))
	}
	path := unit.ProgramPath
	if u, err := h.unit(); err == nil && u.ExecPath != "" {
		path = u.ExecPath
	}
	return append(matches, unit.SELinuxFindings(path, time.Now())...)
}

// deniedBySandbox lists what the unit's sandbox denies a service that is not ready.
func (h *host) deniedBySandbox() []string {
	u, err := h.unit()
	if err != nil || u.LoadState != "loaded" || h.serviceReady() {
		return nil
	}
	return unit.SandboxFaults(u)
}
