// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// observation is what one look at the host saw.
type observation struct {
	config      config.Config
	configKnown bool   // false: refused, and there is no last good one
	userManaged bool   // kubelet keeps keepalived's static pod among the disabled ones
	staticPod   string // the path of keepalived's static pod; empty: kubelet has none
	keepalived  keepalived.Snapshot
	microShift  microShift
	// rememberedInternal are the internal addresses of the DefaultMicroShiftDir that was seen here last.
	rememberedInternal []netip.Addr
	// defaultDirInternal are those by the files where DefaultMicroShiftDir's are as a rule, where
	// another directory is given, or none.
	defaultDirInternal []netip.Addr
	addresses          []ownership.Address
}

// removeTable holds when all that a plan rests on has been seen once.
func (s observation) complete() bool {
	seen := !s.configKnown || !s.config.Enabled() || s.config.VIPs.Explicit() || s.userManaged || s.keepalived.Known
	return seen && (!s.isMicroShift() || s.microShift.err == nil)
}

// plan is what a sight asks for.
type plan struct {
	reason             report.Reason
	message            string
	unreachableMessage string // the message when the ingress takes no connections; empty: the usual one
	messageSuffix      string // what is to be said whatever the state is
	decision           ownership.Decision
	listen             bool // there is a front door, with a table that leads to it
	port               uint16
	ingress            []netip.Addr

	routerHTTP, routerHTTPS uint16 // where the ingress listens; 0: as the configuration has it
}

// table is the table that leads the held VIPs to a front door on port.
func (p plan) table(port uint16) ruleset.Table {
	return ruleset.New(port, p.decision.Held)
}

// decide turns a sight into a plan. It is pure.
func decide(s observation) plan {
	switch {
	case !s.configKnown:
		return plan{reason: report.InvalidConfig}
	case !s.config.Enabled():
		return plan{reason: report.Disabled, message: `mode is "": this host leads nothing to the ingress`}
	}
	if s.isMicroShift() {
		return decideMicroShift(s)
	}
	vips, refusal := locateVIPs(s)
	if refusal != nil {
		return *refusal
	}
	guarded := s.excluded()
	internal := exclude(vips.API, exclude(vips.API, guarded))
	d := ownership.Decide(exclude(vips.API, guarded), vips.Ingress, s.addresses)
	p := plan{decision: d, port: s.config.InternalPort, ingress: vips.Ingress}
	switch {
	case len(d.Held)+len(d.Standby) > 0:
		p.setServing("")
	case len(internal) > 0 && len(d.NotRequired) == 0:
		return plan{reason: report.NoVIPs, message: s.describeInternal(internal) + ": give the address by which clients reach the API as vips.api" + s.internalRemediation(internal)}
	default:
		p.reason = report.NotRequired
		p.message = fmt.Sprintf("API and ingress share %s, whose port 80 is the ingress's already", joinAddrs(d.NotRequired))
		return p
	}
	if len(internal) > 0 {
		mend := ": delete it from vips.api"
		if !s.config.VIPs.Explicit() {
			mend = ": delete it from " + s.config.VIPs.KeepalivedConfig + ", or give vips.api and vips.ingress"
		}
		p.message += "; " + s.describeInternal(internal) + mend + s.internalRemediation(internal)
	}
	if s.keepalived.Stale && !s.config.VIPs.Explicit() {
		p.message += fmt.Sprintf(" (%v; the last good VIPs stay in force)", s.keepalived.Err)
	}
	return p
}

// setServing has the front door open for what the decision says. of tells whose the
// addresses are, where they are no VIPs.
func (p *plan) setServing(of string) {
	p.listen = true
	if len(p.decision.Held) == 0 {
		p.reason, p.message = report.Standby, "not on this host: "+joinAddrs(p.decision.Standby)+of
		return
	}
	p.reason, p.message = report.Serving, "holds "+joinAddrs(p.decision.Held)+of
	if len(p.decision.Standby) > 0 {
		p.message += "; not on this host: " + joinAddrs(p.decision.Standby)
	}
}

// locateVIPs finds the VIPs, or says why there are none.
func locateVIPs(s observation) (keepalived.VIPs, *plan) {
	if s.config.VIPs.Explicit() {
		return keepalived.VIPs{API: s.config.VIPs.API, Ingress: s.config.VIPs.Ingress}, nil
	}
	none := func(reason report.Reason, format string, args ...any) (keepalived.VIPs, *plan) {
		return keepalived.VIPs{}, &plan{reason: reason, message: fmt.Sprintf(format, args...)}
	}
	const mend = "correct the file, or give vips.api and vips.ingress in the configuration"
	path, vips, err := s.config.VIPs.KeepalivedConfig, s.keepalived.Discovery.VIPs, s.keepalived.Err
	switch {
	case s.userManaged:
		return none(report.ExternalLoadBalancer, "the VIPs are user-managed and never on a node: lead port 80 of the API address to the ingress on that load balancer")
	case s.keepalived.Known && !s.keepalived.Stale && errors.Is(err, fs.ErrNotExist) && s.staticPod != "":
		return none(report.NoVIPs, "there is no %s, although keepalived's static pod is here (%s): "+
			"see why that pod has not written the file, or give vips.api and vips.ingress in the configuration", path, s.staticPod)
	case s.keepalived.Known && !s.keepalived.Stale && errors.Is(err, fs.ErrNotExist) && s.config.MicroShift.ManageAdvertiseAddress:
		return none(report.NoVIPs, "microshift.manageAdvertiseAddress is true, and MicroShift's directory %s cannot be seen: correct microshift.directory, "+
			"or leave manageAdvertiseAddress out", s.config.MicroShift.Directory)
	case s.keepalived.Known && !s.keepalived.Stale && errors.Is(err, fs.ErrNotExist):
		return none(report.NotRequired, "no %s and no VIPs given: this platform has no virtual IPs", path)
	case len(vips.API) == 0 && err != nil:
		return none(report.NoVIPs, "%v: %s", err, mend)
	case len(vips.API) == 0:
		return none(report.NoVIPs, "%s gives no API VIP: %s", path, mend)
	}
	orphan, found := apiWithoutIngress(vips)
	switch {
	case found && s.keepalived.Stale: // what it gave before is no help
		return none(report.NoVIPs, "%v: %s", err, mend)
	case found:
		return none(report.NoVIPs, "%s gives API VIP %v but no ingress VIP: %s", path, orphan, mend)
	}
	return vips, nil
}

// apiWithoutIngress finds an API VIP without an ingress VIP of any family. One
// of the other family will do: the gate falls back to it.
func apiWithoutIngress(vips keepalived.VIPs) (netip.Addr, bool) {
	if len(vips.Ingress) == 0 && len(vips.API) > 0 {
		return vips.API[0], true
	}
	return netip.Addr{}, false
}

func joinAddrs(addrs []netip.Addr) string {
	texts := make([]string, len(addrs))
	for i, a := range addrs {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}

// reportVIPs lists the API VIPs for a report, in their order.
func reportVIPs(d ownership.Decision) []report.VIP {
	var out []report.VIP
	add := func(addrs []netip.Addr, state report.VIPState) {
		for _, a := range addrs {
			family := "IPv6"
			if a.Is4() {
				family = "IPv4"
			}
			out = append(out, report.VIP{Address: a, Family: family, State: state})
		}
	}
	add(d.Held, report.VIPHeld)
	add(d.Standby, report.VIPStandby)
	add(d.NotRequired, report.VIPNotRequired)
	return out
}
