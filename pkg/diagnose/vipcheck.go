// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
)

// checkVIPs judges what this host knows of the VIPs.
func checkVIPs(_ context.Context, h *host) Result {
	if f, bad := h.vipsFault(); bad {
		return found([]findings.Finding{f}, "")
	}
	if h.edge.is {
		return h.checkEdgeVIPs()
	}
	var matches []findings.Finding
	if len(h.internal) > 0 {
		matches = append(matches, findings.Find(findings.MicroShiftVIPInternal, "vip", list(h.internal)))
	}
	switch {
	case errors.Is(h.vipsErr, errInternalVIP):
		return found(matches, "")
	case h.vipsErr != nil:
		return skipped("%v", h.vipsErr)
	case len(h.held.NotRequired) > 0:
		return found(append(matches, findings.Find(findings.VIPsShared, "vip", list(h.held.NotRequired))), "")
	case h.addressErr != nil:
		return skipped("%v", h.addressErr)
	}
	where := h.config.VIPs.KeepalivedConfig
	if h.config.VIPs.Explicit() {
		where = h.ConfigPath
	}
	var parts []string
	if len(h.held.Held) > 0 {
		parts = append(parts, "holds "+list(h.held.Held))
	}
	if len(h.held.Standby) > 0 {
		parts = append(parts, "not on this host: "+list(h.held.Standby))
	}
	return found(matches, "%s; ingress %s (from %s)", strings.Join(parts, ", "), list(h.vips.Ingress), where)
}

// vipsFault is why there are no VIPs, as far as that is a fault.
func (h *host) vipsFault() (findings.Finding, bool) {
	if h.edge.is {
		return h.edgeFault()
	}
	path, err := h.config.VIPs.KeepalivedConfig, h.vipsErr
	manifest := keepalived.ManifestPath(h.Manifests)
	if errors.Is(err, errUserManaged) {
		manifest = keepalived.ManifestPath(h.DisabledManifests)
	}
	find := func(id findings.ID) (findings.Finding, bool) {
		return findings.Find(id, "path", path, "manifest", manifest, "error", fmt.Sprint(err), "vip", list(h.vips.API)), true
	}
	switch {
	case err == nil, errors.Is(err, errNoNode), errors.Is(err, errWorker), errors.Is(err, errInternalVIP), errors.Is(err, fs.ErrPermission) && !h.root:
		return findings.Finding{}, false
	case errors.Is(err, errUserManaged):
		return find(findings.VIPsUserManaged)
	case errors.Is(err, errNoIngress):
		return find(findings.VIPsNoIngress)
	case errors.Is(err, fs.ErrNotExist):
		return find(findings.KeepalivedAbsent)
	case errors.Is(err, keepalived.ErrNoAPIInstance):
		return find(findings.KeepalivedNoAPI)
	case errors.Is(err, keepalived.ErrIncomplete):
		return find(findings.KeepalivedIncomplete)
	default:
		return find(findings.KeepalivedUnreadable)
	}
}

func list(addrs []netip.Addr) string {
	texts := make([]string, len(addrs))
	for i, a := range addrs {
		texts[i] = a.String()
	}
	if last := len(texts) - 1; last > 1 {
		texts = []string{strings.Join(texts[:last], ", "), texts[last]}
	}
	return strings.Join(texts, " and ")
}
