// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/discovery"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
)

// checkVIPs evaluates the VIPs that this host has detected.
func checkVIPs(_ context.Context, h *host) Result {
	if f, bad := h.vipsFault(); bad {
		return findingsResult([]findings.Finding{f}, "")
	}
	if h.microShiftState.active {
		return h.checkMicroShiftVIPs()
	}
	var matches []findings.Finding
	if len(h.internalVIPs) > 0 {
		matches = append(matches, findings.New(findings.MicroShiftInternalAddressAsVIP, findings.Values{"vip": joinAddresses(h.internalVIPs)}))
	}
	switch {
	case errors.Is(h.vipsErr, errInternalVIP):
		return findingsResult(matches, "")
	case h.vipsErr != nil:
		return skippedResult("%v", h.vipsErr)
	case len(h.ownership.NotRequired) > 0:
		return findingsResult(append(matches, findings.New(findings.VIPsShared, findings.Values{"vip": joinAddresses(h.ownership.NotRequired)})), "")
	case h.addressErr != nil:
		return skippedResult("%v", h.addressErr)
	}
	where := h.config.VIPs.KeepalivedConfig
	if h.config.VIPs.Explicit() {
		where = h.ConfigPath
	}
	var parts []string
	if len(h.ownership.Held) > 0 {
		parts = append(parts, "holds "+joinAddresses(h.ownership.Held))
	}
	if len(h.ownership.Standby) > 0 {
		parts = append(parts, "not on this host: "+joinAddresses(h.ownership.Standby))
	}
	return findingsResult(matches, "%s; ingress %s (from %s)", strings.Join(parts, ", "), joinAddresses(h.vips.Ingress), where)
}

// vipsFault is the reason for missing VIPs, if it is a fault.
func (h *host) vipsFault() (findings.Finding, bool) {
	if h.microShiftState.active {
		return h.microShiftFinding()
	}
	path, err := h.config.VIPs.KeepalivedConfig, h.vipsErr
	manifest := keepalived.StaticPodPath(h.ManifestDir)
	if errors.Is(err, discovery.ErrUserManaged) {
		manifest = keepalived.StaticPodPath(h.DisabledManifestDir)
	}
	find := func(id findings.ID) (findings.Finding, bool) {
		return findings.New(id, findings.Values{"path": path, "manifest": manifest, "error": fmt.Sprint(err), "vip": joinAddresses(h.vips.API)}), true
	}
	switch {
	case err == nil, errors.Is(err, discovery.ErrNoNode), errors.Is(err, discovery.ErrWorker), errors.Is(err, errInternalVIP), errors.Is(err, fs.ErrPermission) && !h.privileged:
		return findings.Finding{}, false
	case errors.Is(err, discovery.ErrUserManaged):
		return find(findings.VIPsUserManaged)
	case errors.Is(err, discovery.ErrNoIngressVIP):
		return find(findings.IngressVIPMissing)
	case errors.Is(err, fs.ErrNotExist):
		return find(findings.KeepalivedConfigMissing)
	case errors.Is(err, keepalived.ErrNoAPIInstance):
		return find(findings.KeepalivedNoAPIInstance)
	case errors.Is(err, keepalived.ErrIncomplete):
		return find(findings.KeepalivedConfigIncomplete)
	default:
		return find(findings.KeepalivedConfigUnreadable)
	}
}

func joinAddresses(addrs []netip.Addr) string {
	texts := make([]string, len(addrs))
	for i, a := range addrs {
		texts[i] = a.String()
	}
	if last := len(texts) - 1; last > 1 {
		texts = []string{strings.Join(texts[:last], ", "), texts[last]}
	}
	return strings.Join(texts, " and ")
}
