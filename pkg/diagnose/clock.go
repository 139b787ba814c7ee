// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

const (
	ntpPort      = 123
	clockTimeout = 5 * time.Second
	maxOffset    = time.Minute
)

// clockReading is the reading of another clock.
type clockReading struct {
	server string
	offset time.Duration // by which this host's clock is behind
	err    error
}

// checkClock compares this host's clock with its time servers. If none responds, it
// uses the Date fields of other hosts.
func checkClock(ctx context.Context, h *host) Result {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	names := timeServers(h.ChronyConf)
	by := "NTP"
	all := h.queryTimeServers(ctx, names)
	if len(all) == 0 {
		by = "the Date field of its responses"
		all = h.readDateHeaders(ctx)
	}
	if len(all) == 0 {
		return skippedResult("no clock to compare with (servers in %s: %s); the kernel reports that it is %s", h.ChronyConf, joinOrNone(names), kernelClockState())
	}
	// Most of them are right. A single wrong one is not a fault of this host.
	slices.SortFunc(all, func(a, b clockReading) int { return int(a.offset.Abs() - b.offset.Abs()) })
	middle := all[(len(all)-1)/2]
	if middle.offset.Abs() <= maxOffset {
		return okResult("%v offset to %s, by %s", middle.offset.Abs().Round(time.Millisecond), middle.server, by)
	}
	direction := "ahead of"
	if middle.offset > 0 {
		direction = "behind"
	}
	return findingsResult([]findings.Finding{findings.New(findings.ClockOffset, findings.Values{"off": middle.offset.Abs().Round(time.Second).String(), "direction": direction, "server": middle.server})}, "")
}

func joinOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// kernelClockState is the synchronisation state from adjtimex(2).
func kernelClockState() string {
	state, err := unix.Adjtimex(&unix.Timex{})
	switch {
	case err != nil:
		return "unknown: " + err.Error()
	case state == unix.TIME_ERROR:
		return "not synchronised"
	default:
		return "synchronised"
	}
}

// queryTimeServers queries time servers concurrently. Those without a response are left
// out.
func (h *host) queryTimeServers(ctx context.Context, names []string) []clockReading {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout/2)
	defer cancel()
	all := make([]clockReading, len(names))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() { all[i] = h.queryTimeServer(ctx, name) })
	}
	group.Wait()
	return slices.DeleteFunc(all, func(r clockReading) bool { return r.err != nil })
}

func (h *host) queryTimeServer(ctx context.Context, name string) clockReading {
	addr, err := h.resolveTimeServer(ctx, name)
	if err != nil {
		return clockReading{err: err}
	}
	a, err := h.prober.Query(ctx, protocol.Request{Clock: &protocol.ClockRequest{Addr: netip.AddrPortFrom(addr, ntpPort)}})
	if err != nil {
		return clockReading{err: err}
	}
	return clockReading{server: name, offset: a.Clock.Offset}
}

// resolveTimeServer resolves a time server.
func (h *host) resolveTimeServer(ctx context.Context, name string) (netip.Addr, error) {
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr.Unmap(), nil
	}
	servers, err := h.dnsServers()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, s := range servers {
		if addr, ok := h.lookupAny(ctx, s, name); ok {
			return addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no address of %s", name)
}

// lookupAny queries one DNS server for an address of either family.
func (h *host) lookupAny(ctx context.Context, s dnsServer, name string) (netip.Addr, bool) {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout/5)
	defer cancel()
	for _, ipv6 := range []bool{false, true} {
		if r := h.lookup(ctx, s, name, ipv6); len(r.Addresses) > 0 {
			return r.Addresses[0], true
		}
	}
	return netip.Addr{}, false
}

// readDateHeaders reads the clocks of other hosts from responses of the ingress and the
// API server.
func (h *host) readDateHeaders(ctx context.Context) []clockReading {
	var all []clockReading
	add := func(addr netip.Addr, page protocol.FetchResult, when time.Time) {
		local := slices.ContainsFunc(h.addresses, func(a address.Address) bool { return a.IP == addr })
		if local || page.Date.IsZero() {
			return
		}
		all = append(all, clockReading{server: addr.String(), offset: page.Date.Sub(when.Add(page.FirstByte - page.Total))})
	}
	for _, vip := range h.vips.API {
		if h.observed.vipFaulty(ctx, vip) {
			continue
		}
		page, _ := h.fetch(ctx, protocol.FetchRequest{Addr: netip.AddrPortFrom(vip, prober.APIPort), Host: h.observed.apiName(ctx), Path: "/readyz", TLS: true})
		add(vip, page, time.Now())
	}
	for _, vip := range h.vips.Ingress {
		if h.observed.vipFaulty(ctx, vip) {
			continue
		}
		u := h.config.Upstream
		page, _ := h.fetch(ctx, protocol.FetchRequest{Addr: netip.AddrPortFrom(vip, u.InitialPort()), Host: placeholderName, Path: "/", TLS: u.Scheme == config.SchemeHTTPS})
		add(vip, page, time.Now())
	}
	return all
}
