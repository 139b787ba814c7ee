// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
)

// pathTimeout bounds the look at one path.
const pathTimeout = 4 * time.Second

// checkPath looks whether whole packets reach the ingress VIPs.
func checkPath(ctx context.Context, h *host) Result {
	if len(h.vips.Ingress) == 0 {
		return skipped("no ingress VIP is known")
	}
	var findings []findings.Finding
	var well, unknown bundle
	for _, vip := range h.vips.Ingress {
		if h.seen.troubled(ctx, vip) {
			continue
		}
		f, text, is := h.judgePath(ctx, vip)
		findings = append(findings, f...)
		switch {
		case len(f) > 0:
		case is:
			well.add(vip, "%s", text)
		default:
			unknown.add(vip, "%s", text)
		}
	}
	switch {
	case len(findings) > 0, !well.empty():
		return found(findings, "%v", &well).but(unknown.String())
	case unknown.empty():
		return skipped("no ingress VIP could be asked")
	default:
		return skipped("%v", &unknown)
	}
}

// judgePath looks at the path to one VIP; known says that it could be told.
func (h *host) judgePath(ctx context.Context, vip netip.Addr) (matches []findings.Finding, text string, known bool) {
	w, err := h.wayTo(vip, h.addresses)
	switch {
	case err != nil:
		return nil, err.Error(), false
	case w.here:
		return nil, "on this host", true
	}
	ctx, cancel := context.WithTimeout(ctx, pathTimeout)
	defer cancel()
	p, err := prober.MeasurePath(ctx, vip, w.link.MTU)
	switch {
	case errors.Is(err, unix.EPERM):
		return nil, "to send echo requests takes root", false
	case err != nil:
		return nil, err.Error(), false
	case !p.Small:
		return nil, "does not answer echo requests", false
	case p.Large:
		return nil, fmt.Sprintf("%d bytes get there", w.link.MTU), true
	case p.TooBig:
		return nil, fmt.Sprintf("packets are smaller than %d bytes on the way, and a host there says so", w.link.MTU), true
	default:
		return []findings.Finding{findings.Find(findings.PathBlackHole,
			"mtu", strconv.Itoa(w.link.MTU), "link", w.link.Name, "vip", vip.String())}, "", true
	}
}
