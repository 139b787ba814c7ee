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

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

// checkService judges the service by what it says itself and, where it is not
// well, by what its unit and SELinux leave it.
func checkService(_ context.Context, h *host) Result {
	reason, message := h.serviceState()
	said := fmt.Sprintf("%s: %s", reason, message)
	if unnoticed := h.unnoticedVIPs(); len(unnoticed) > 0 {
		said += "; but this host holds " + joinAddresses(unnoticed)
	}
	switch {
	case h.serviceReady():
		return okResult("%s", said)
	case reason == "" && errors.Is(h.reportError(), fs.ErrPermission) && h.mayRun():
		return skippedResult("only root may ask the service how it is")
	}
	if errors.Is(h.reportError(), client.ErrInvalidReport) {
		return findingsResult([]findings.Finding{findings.New(findings.ServiceReportUnreadable, "error", h.reportError().Error())}, "")
	}
	if findings := h.sandboxFindings(); len(findings) > 0 {
		return findingsResult(findings, "")
	}
	switch {
	case h.serviceUnresponsive():
		return findingsResult([]findings.Finding{findings.New(findings.ServiceUnresponsive, "state", h.reportError().Error())}, "")
	case reason == "":
		return findingsResult([]findings.Finding{findings.New(findings.ServiceNotRunning, "state", h.unitState())}, "")
	default:
		f := findings.New(findings.ServiceNotReady, "state", said)
		// What other checks may have seen for themselves. What root sees well may be
		// closed to the service's user.
		f.CausedBy = reasonCauses(reason)
		return findingsResult([]findings.Finding{f}, "")
	}
}

// reportError is why the service has said nothing; nil when it has.
func (h *host) reportError() error {
	_, err := h.report()
	return err
}

// serviceUnresponsive holds for a service that runs and does not answer.
func (h *host) serviceUnresponsive() bool {
	err := h.reportError()
	var late net.Error
	switch {
	case err == nil, errors.Is(err, fs.ErrPermission), errors.Is(err, client.ErrInvalidReport):
		return false
	case errors.As(err, &late) && late.Timeout():
		return true
	default:
		u, unknown := h.unit()
		return unknown == nil && u.ActiveState == "active"
	}
}

// serviceReady reports whether the service says that it is, and sees what is here.
func (h *host) serviceReady() bool {
	reason, _ := h.serviceState()
	return reason.Ready() && len(h.unnoticedVIPs()) == 0
}

// unnoticedVIPs are the VIPs which this host holds and the service, on standby, does not
// see.
func (h *host) unnoticedVIPs() []netip.Addr {
	if reason, _ := h.serviceState(); reason != report.Standby || len(h.ownership.Held) == 0 {
		return nil
	}
	return h.stillUnnoticed()
}

// reactionTime is how long the service may take to see and to serve a VIP that has come.
const reactionTime = 500 * time.Millisecond

// findStillUnnoticed tells a service that does not see what this host holds from one that
// was asked while a VIP came or went: what counts is held before the service has said
// that it is on standby and after it, twice.
func (h *host) findStillUnnoticed(ctx context.Context) []netip.Addr {
	left := h.stillHeld(h.ownership.Held)
	if len(left) == 0 {
		return nil
	}
	wait := time.NewTimer(reactionTime)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return left
	case <-wait.C:
	}
	if again, err := h.fetchReport(); err == nil && again.Condition().Reason != report.Standby {
		return nil
	}
	return h.stillHeld(left)
}

// stillHeld are those of some VIPs that this host holds now; all of them, where its
// addresses cannot be read.
func (h *host) stillHeld(vips []netip.Addr) []netip.Addr {
	now, err := h.readAddresses()
	if err != nil {
		return vips
	}
	return ownership.Decide(vips, nil, ownershipAddresses(now)).Held
}

// reasonCauses are the findings of other checks that are what the service complains
// about in a state.
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

// mayRun holds unless systemd knows that it does not run.
func (h *host) mayRun() bool {
	u, err := h.unit()
	return err != nil || u.ActiveState == "active" || u.ActiveState == "reloading"
}

// unitState says how the unit is.
func (h *host) unitState() string {
	u, err := h.unit()
	switch {
	case err != nil:
		return systemMessage(h.reportError())
	case u.LoadState == "not-found":
		return unitName + " is not installed on this host"
	case u.LoadState != "loaded":
		return fmt.Sprintf("%s is %s", unitName, u.LoadState)
	case u.ConditionFailed:
		return fmt.Sprintf("a condition of %s is not met, such as that %s is there", unitName, u.ExecPath)
	}
	state := fmt.Sprintf("%s is %s", unitName, u.ActiveState)
	if u.UnitFileState != "" {
		state += " and " + u.UnitFileState
	}
	if end := lastExit(u); end != "" {
		state += ", and " + end
	}
	return state
}

// lastExit says how the last run ended, if that was not well.
func lastExit(u systemd.Unit) string {
	if u.Result == "success" && u.ExecMainStatus == 0 {
		return ""
	}
	const exited = 1 // CLD_EXITED of sigaction(2)
	how := fmt.Sprintf("its last run ended by signal %d", u.ExecMainStatus)
	if u.ExecMainCode == exited {
		how = fmt.Sprintf("its last run ended with exit code %d", u.ExecMainStatus)
		if name := exitName(u.ExecMainStatus); name != "" {
			how += "/" + name
		}
	}
	if u.Restarts > 0 {
		how += fmt.Sprintf(" after %d restarts", u.Restarts)
	}
	return how
}

// exitName is systemd's name for an exit code of its own (systemd.exec(5), "Process
// Exit Codes"), for those that come of a sandbox.
func exitName(code int) string {
	switch code {
	case exitExec:
		return "EXEC"
	case 217:
		return "USER"
	case 218:
		return "CAPABILITIES"
	case 226:
		return "NAMESPACE"
	case 228:
		return "SECCOMP"
	case 233:
		return "RUNTIME_DIRECTORY"
	case 238:
		return "STATE_DIRECTORY"
	default:
		return ""
	}
}

const exitExec = 203

// sandboxFindings is what keeps a service that is not well from what it needs.
func (h *host) sandboxFindings() []findings.Finding {
	var matches []findings.Finding
	if kept := h.deniedBySandbox(); len(kept) > 0 {
		u, _ := h.unit()
		dropIns := strings.Join(u.DropIns, ", ")
		if dropIns == "" {
			dropIns = "there is none: from the unit itself"
		}
		matches = append(matches, findings.New(findings.SandboxDenies, "what", strings.Join(kept, "; "), "dropins", dropIns))
	}
	path := programPath
	if u, err := h.unit(); err == nil && u.ExecPath != "" {
		path = u.ExecPath
	}
	return append(matches, readSELinux(path).findings(path, time.Now())...)
}

// deniedBySandbox is what the unit's sandbox keeps from a service that is not well.
func (h *host) deniedBySandbox() []string {
	u, err := h.unit()
	if err != nil || u.LoadState != "loaded" || h.serviceReady() {
		return nil
	}
	return sandboxFaults(u)
}

// programPath is where the unit has the program.
const programPath = "/usr/local/bin/http01-proxyd"
