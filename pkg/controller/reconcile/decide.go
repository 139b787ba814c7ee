// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift/decision"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// observation is the state of the host in one pass.
type observation struct {
	files

	microShift decision.State // of its files and the addresses
	// rememberedInternal are the internal addresses that MicroShift used since this process
	// started.
	rememberedInternal []netip.Addr
	addresses          []address.Address
}

// complete reports whether everything that a plan depends on was read once.
func (o observation) complete() bool {
	vipsKnown := !o.configKnown || !o.config.Enabled() || o.config.VIPs.Explicit() || o.isBGP() || o.userManaged ||
		o.pod.HasVIPs() || o.keepalived.Known
	return o.read && vipsKnown && (!o.isMicroShift() || o.microShift.ComputeErr == nil)
}

// plan is the state that an observation requires.
type plan struct {
	decision.Plan

	management string // of the VIPs, as reported
	port       uint16
}

// table returns the table that redirects the held VIPs to a port.
func (p plan) table(port uint16) ruleset.Table {
	return ruleset.New(port, p.Decision.Held)
}

// decide returns the plan for an observation. It is a pure function.
func decide(s observation) plan {
	switch {
	case !s.configKnown:
		return plan{Plan: decision.Plan{Reason: report.InvalidConfig}}
	case !s.config.Enabled():
		return plan{Plan: decision.Plan{Reason: report.Disabled, Message: `mode is "": this host redirects no connections`}}
	}
	if s.isMicroShift() {
		p := decision.Decide(s.config, s.microShift, s.excluded(), s.addresses)
		return plan{Plan: p, port: s.config.InternalPort}
	}
	vips, rejection := locateVIPs(s)
	if rejection != nil {
		return *rejection
	}
	guarded := s.excluded()
	internal := address.Exclude(vips.API, address.Exclude(vips.API, guarded))
	d := ownership.Decide(address.Exclude(vips.API, guarded), vips.Ingress, s.addresses)
	p := plan{Plan: decision.Plan{Decision: d, Ingress: vips.Ingress}, port: s.config.InternalPort}
	if s.isBGP() {
		p.management = report.ManagementBGP
	}
	switch {
	case len(d.Held)+len(d.Standby) > 0:
		p.Serves = true
		p.Reason, p.Message = decision.Serving(d, "")
	case len(internal) > 0 && len(d.NotRequired) == 0:
		text, remediation := s.describeInternal(internal)
		message := text + ": set vips.api to the address that clients use for the API" + remediation
		return plan{Plan: decision.Plan{Reason: report.NoVIPs, Message: message}}
	default:
		p.Reason = report.NotRequired
		p.Message = fmt.Sprintf("API and ingress share %s, so the ingress serves its port 80", address.Join(d.NotRequired))
		return p
	}
	if len(internal) > 0 {
		fix := ": delete it from vips.api"
		switch {
		case s.config.VIPs.Explicit():
		case s.isBGP(), s.pod.HasVIPs():
			fix = ": set vips.api and vips.ingress"
		default:
			fix = ": delete it from " + s.config.VIPs.KeepalivedConfig + ", or set vips.api and vips.ingress"
		}
		text, remediation := s.describeInternal(internal)
		p.Message += "; " + text + fix + remediation
	}
	switch {
	case s.config.VIPs.Explicit():
	case s.isBGP() && s.kubeVIPErr != nil:
		p.Message += fmt.Sprintf(" (%v; the known VIPs stay in use)", s.kubeVIPErr)
	case !s.isBGP() && s.pod.HasVIPs() && s.podErr != nil:
		p.Message += fmt.Sprintf(" (%v; the last good VIPs stay in use)", s.podErr)
	case !s.isBGP() && s.keepalived.Stale:
		p.Message += fmt.Sprintf(" (%v; the last good VIPs stay in use)", s.keepalived.Err)
	}
	return p
}

// locateVIPs returns the VIPs, or the plan for a host without VIPs.
func locateVIPs(s observation) (keepalived.VIPs, *plan) {
	if s.config.VIPs.Explicit() {
		return keepalived.VIPs{API: s.config.VIPs.API, Ingress: s.config.VIPs.Ingress}, nil
	}
	none := func(reason report.Reason, format string, args ...any) (keepalived.VIPs, *plan) {
		return keepalived.VIPs{}, &plan{Plan: decision.Plan{Reason: reason, Message: fmt.Sprintf(format, args...)}}
	}
	const (
		explicit = "set vips.api and vips.ingress in the configuration"
		fix      = "correct the file, or " + explicit
	)
	if s.isBGP() {
		switch vips, err := s.kubeVIP.VIPs, s.kubeVIPErr; {
		case len(vips.API) > 0 && len(vips.Ingress) > 0:
			return vips, nil
		case err != nil:
			return none(report.NoVIPs, "%v: %s", err, fix)
		default:
			return none(report.NoVIPs, "%v: %s", s.kubeVIP.Missing(), explicit)
		}
	}
	path, vips, err := s.config.VIPs.KeepalivedConfig, s.keepalived.Discovery.VIPs, s.keepalived.Err
	switch {
	case s.userManaged:
		return none(report.ExternalLoadBalancer, "the VIPs are user-managed and never on a node: "+
			"forward port 80 of the API address to the ingress on that load balancer")
	case s.pod.HasVIPs():
		return s.pod.VIPs, nil
	case s.hasNoKeepalivedConfig() && s.staticPod != "":
		return none(report.NoVIPs, "%s does not exist, although keepalived's static pod does (%s): "+
			"find out why that pod has not written the file, or %s", path, s.staticPod, explicit)
	case s.hasNoKeepalivedConfig() && s.config.MicroShift.ManageAdvertiseAddress:
		return none(report.NoVIPs, "microshift.manageAdvertiseAddress is true, "+
			"but MicroShift's directory %s does not exist or cannot be read: "+
			"correct microshift.directory, or delete manageAdvertiseAddress", s.config.MicroShift.Directory)
	case s.hasNoKeepalivedConfig():
		return none(report.NotRequired, "%s does not exist and no VIPs are configured: "+
			"this platform has no virtual IPs", path)
	case len(vips.API) == 0 && errors.Is(err, keepalived.ErrUnsupported):
		return none(report.NoVIPs, "%v", err)
	case len(vips.API) == 0 && err != nil, len(vips.Ingress) == 0 && s.keepalived.Stale:
		return none(report.NoVIPs, "%v: %s", err, fix)
	case len(vips.API) == 0:
		return none(report.NoVIPs, "%s has no API VIP: %s", path, fix)
	case len(vips.Ingress) == 0: // one of the other family is sufficient, because the proxy falls back to it
		return none(report.NoVIPs, "%s has API VIP %v but no ingress VIP: %s", path, vips.API[0], fix)
	}
	return vips, nil
}

// hasNoKeepalivedConfig reports whether the file of keepalived does not exist.
func (o observation) hasNoKeepalivedConfig() bool {
	return o.keepalived.Known && !o.keepalived.Stale && errors.Is(o.keepalived.Err, fs.ErrNotExist)
}

// reportVIPs returns the API VIPs for a report, sorted by state.
func (p plan) reportVIPs() []report.VIP {
	d := p.Decision
	var out []report.VIP
	add := func(addrs []netip.Addr, state report.VIPState) {
		for _, a := range addrs {
			out = append(out, report.VIP{Address: a, Family: printable.Family(a), State: state, Management: p.management})
		}
	}
	add(d.Held, report.VIPHeld)
	add(d.Standby, report.VIPStandby)
	add(d.NotRequired, report.VIPNotRequired)
	return out
}
