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

// mtuTimeout bounds the test of one path.
const mtuTimeout = 4 * time.Second

// checkMTU checks whether packets of full size reach the ingress VIPs.
func checkMTU(ctx context.Context, h *host) Result {
	if len(h.vips.Ingress) == 0 {
		return skippedResult("no ingress VIP is known")
	}
	var findings []findings.Finding
	var texts, unknown groupedTexts
	for _, vip := range h.vips.Ingress {
		if h.observed.vipFaulty(ctx, vip) {
			continue
		}
		f, text, ok := h.judgeMTU(ctx, vip)
		findings = append(findings, f...)
		switch {
		case len(f) > 0:
		case ok:
			texts.add(vip, "%s", text)
		default:
			unknown.add(vip, "%s", text)
		}
	}
	switch {
	case len(findings) > 0, !texts.empty():
		return findingsResult(findings, "%v", &texts).withNotChecked(unknown.String())
	case unknown.empty():
		return skippedResult("no ingress VIP could be checked")
	default:
		return skippedResult("%v", &unknown)
	}
}

// judgeMTU tests the path to one VIP; known reports whether the test was conclusive.
func (h *host) judgeMTU(ctx context.Context, vip netip.Addr) (matches []findings.Finding, text string, known bool) {
	w, err := h.pathTo(vip)
	switch {
	case err != nil:
		return nil, err.Error(), false
	case w.Local:
		return nil, "on this host", true
	}
	ctx, cancel := context.WithTimeout(ctx, mtuTimeout)
	defer cancel()
	p, err := prober.MeasurePath(ctx, vip, w.Link.MTU)
	switch {
	case errors.Is(err, unix.EPERM):
		return nil, "only root can send echo requests", false
	case err != nil:
		return nil, err.Error(), false
	case !p.Small:
		return nil, "does not reply to echo requests", false
	case p.Large:
		return nil, fmt.Sprintf("packets of %d bytes arrive", w.Link.MTU), true
	case p.TooBig:
		return nil, fmt.Sprintf("the path MTU is below %d bytes, and ICMP reports it", w.Link.MTU), true
	default:
		return []findings.Finding{findings.New(findings.PathMTUBlackHole, findings.Values{"mtu": strconv.Itoa(w.Link.MTU), "link": w.Link.Name, "vip": vip.String()})}, "", true
	}
}
