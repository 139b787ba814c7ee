// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/changelog"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// publish passes the result of a pass to the tracker.
func (l *Loop) publish(p plan, reason report.Reason, message string) {
	hosts := l.observer.observation.acceptedHosts
	switch {
	case reason != report.Serving && reason != report.Standby:
	case hosts.Source == report.HostsUnknown: // the note names the file and the error
		message += "; accepts challenges for any name, because the API's name is not known"
	case hosts.Limited():
		message += fmt.Sprintf("; accepts challenges for %v", hosts)
	}
	reason, message = l.withConfigError(reason, message)
	result := tracker.ReconcileResult{
		Reason:             reason,
		Message:            message,
		UnreachableMessage: p.UnreachableMessage,
		MessageSuffix:      p.MessageSuffix,
		VIPs:               p.reportVIPs(),
		Config:             l.observer.observation.configState,
		AcceptedHosts:      hosts,
	}
	l.setVIPs(result.VIPs)
	l.Tracker.SetReconcileResult(result, time.Now())
}

// setVIPs takes the VIPs of a pass, and reports what changed.
func (l *Loop) setVIPs(vips []report.VIP) {
	l.reportVIPChanges(l.vips, vips)
	l.vips = vips
}

// withConfigError adds a rejected configuration to the state, even while the last good
// one is active.
func (l *Loop) withConfigError(reason report.Reason, message string) (report.Reason, string) {
	s := &l.observer.observation
	err := s.configErr
	if err == nil {
		return reason, message
	}
	rejected := strings.ReplaceAll(err.Error(), "\n", "; ")
	switch {
	case !s.read:
		return report.InvalidConfig, rejected + "; until then, this host stays as the previous process left it"
	case !s.configKnown:
		return report.InvalidConfig, rejected + "; no table is installed until the file is corrected"
	case reason.Ready(), reason == report.Disabled, reason == report.ExternalLoadBalancer:
		return report.InvalidConfig, fmt.Sprintf("%s; the last accepted configuration stays in use (%s: %s)",
			rejected, reason, message)
	default:
		return reason, fmt.Sprintf("%s; in addition, the configuration is rejected: %s", message, rejected)
	}
}

// reportVIPChanges records and counts the API VIPs that this host gained or lost.
func (l *Loop) reportVIPChanges(before, after []report.VIP) {
	was, is, n := VIPsInState(before, report.VIPHeld), VIPsInState(after, report.VIPHeld), uint64(0)
	for _, vip := range is {
		if !slices.Contains(was, vip) {
			n++
			l.RecordChange(vipEntry(vip, "vip-gained", fmt.Sprintf("VIP %v arrived on this host", vip)))
		}
	}
	gone := VIPsInState(after, report.VIPStandby)
	for _, vip := range was {
		if slices.Contains(is, vip) {
			continue
		}
		n++
		if slices.Contains(gone, vip) {
			l.RecordChange(vipEntry(vip, "vip-lost", fmt.Sprintf("VIP %v left this host", vip)))
		} else { // it may still be on the host
			l.RecordChange(vipEntry(vip, "vip-released",
				fmt.Sprintf("port 80 of %v is no longer redirected: it is no longer an API VIP", vip)))
		}
	}
	l.Tracker.CountEvents(func(e *report.Events) { e.VIPTransitions += n })
}

func vipEntry(vip netip.Addr, event, message string) changelog.Entry {
	return changelog.Entry{
		Subject: "VIP " + vip.String(), Level: slog.LevelInfo, Message: message,
		Attrs: []slog.Attr{slog.String("event", event), slog.String("vip", vip.String())},
	}
}

// VIPsInState returns the addresses of the VIPs in a state.
func VIPsInState(vips []report.VIP, state report.VIPState) []netip.Addr {
	var out []netip.Addr
	for _, v := range vips {
		if v.State == state {
			out = append(out, v.Address)
		}
	}
	return out
}
