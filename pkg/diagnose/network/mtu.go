// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
)

// mtuTimeout bounds the test of one path.
const mtuTimeout = 4 * time.Second

// CheckMTU checks whether packets of full size reach the ingress VIPs.
func (h Host) CheckMTU(ctx context.Context) result.Result {
	if len(h.VIPs.Ingress) == 0 {
		return result.Nothing("no ingress VIP is known")
	}
	var all result.Subjects
	for _, vip := range h.VIPs.Ingress {
		h.measureMTU(ctx, vip, &all)
	}
	return all.Result("no ingress VIP could be checked")
}

// measureMTU measures the path to one VIP.
func (h Host) measureMTU(ctx context.Context, vip netip.Addr, all *result.Subjects) {
	w, err := h.PathTo(vip)
	switch {
	case err != nil:
		all.Skip(vip, "%v", err)
		return
	case w.Local:
		all.Pass(vip, "on this host")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, mtuTimeout)
	defer cancel()
	p, err := prober.MeasurePath(ctx, vip, w.Link.MTU)
	switch {
	case errors.Is(err, unix.EPERM):
		all.Skip(vip, "only root can send echo requests")
	case err != nil:
		all.Skip(vip, "%v", err)
	case !p.Small:
		all.Skip(vip, "does not reply to echo requests")
	case p.Large:
		all.Pass(vip, "packets of %d bytes arrive", w.Link.MTU)
	case p.TooBig:
		all.Pass(vip, "the path MTU is below %d bytes, and ICMP reports it", w.Link.MTU)
	default:
		all.FindAt(findings.New(findings.PathMTUBlackHole, findings.Values{
			"mtu": strconv.Itoa(w.Link.MTU), "link": w.Link.Name, "vip": vip.String(),
		}), vip)
	}
}
