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
)

const (
	ntpPort      = 123
	clockTimeout = 5 * time.Second
	maxOffset    = time.Minute
)

// reading is another's clock.
type reading struct {
	server string
	offset time.Duration // by which ours is behind
	err    error
}

// checkClock compares this host's clock with those of its time servers, and,
// where none answers, with those of other hosts by what they say in Date.
func checkClock(ctx context.Context, h *host) Result {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	names := timeServers(h.ChronyConf)
	by := "NTP"
	all := h.askClocks(ctx, names)
	if len(all) == 0 {
		by = "the Date of its answers"
		all = h.askDates(ctx)
	}
	if len(all) == 0 {
		return skipped("no clock to compare with (servers of %s: %s); the kernel says that it is %s", h.ChronyConf, orNone(names), kernelClock())
	}
	// Most of them are right: one that is wrong by itself is not this host's trouble.
	slices.SortFunc(all, func(a, b reading) int { return int(a.offset.Abs() - b.offset.Abs()) })
	middle := all[(len(all)-1)/2]
	if middle.offset.Abs() <= maxOffset {
		return fine("%v apart from %s, by %s", middle.offset.Abs().Round(time.Millisecond), middle.server, by)
	}
	direction := "ahead of"
	if middle.offset > 0 {
		direction = "behind"
	}
	return found([]findings.Finding{findings.Find(findings.ClockOff,
		"off", middle.offset.Abs().Round(time.Second).String(), "direction", direction, "server", middle.server)}, "")
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// kernelClock is what adjtimex(2) says of whether somebody disciplines the clock.
func kernelClock() string {
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

// askClocks asks time servers side by side; those that do not answer are left
// out.
func (h *host) askClocks(ctx context.Context, names []string) []reading {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout/2)
	defer cancel()
	all := make([]reading, len(names))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() { all[i] = h.askClock(ctx, name) })
	}
	group.Wait()
	return slices.DeleteFunc(all, func(r reading) bool { return r.err != nil })
}

func (h *host) askClock(ctx context.Context, name string) reading {
	addr, err := h.oneAddress(ctx, name)
	if err != nil {
		return reading{err: err}
	}
	a, err := h.network.Query(ctx, prober.Request{Clock: &prober.ClockRequest{Addr: netip.AddrPortFrom(addr, ntpPort)}})
	if err != nil {
		return reading{err: err}
	}
	return reading{server: name, offset: a.Clock.Offset}
}

// oneAddress finds an address of a time server.
func (h *host) oneAddress(ctx context.Context, name string) (netip.Addr, error) {
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr.Unmap(), nil
	}
	servers, err := h.servers()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, s := range servers {
		if addr, is := h.anyAddress(ctx, s, name); is {
			return addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no address of %s", name)
}

// anyAddress asks one server for an address of either family.
func (h *host) anyAddress(ctx context.Context, s server, name string) (netip.Addr, bool) {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout/5)
	defer cancel()
	for _, ipv6 := range []bool{false, true} {
		if r := h.lookup(ctx, s, name, ipv6); len(r.Addresses) > 0 {
			return r.Addresses[0], true
		}
	}
	return netip.Addr{}, false
}

// askDates takes the clocks of other hosts from answers that they give anyway:
// the ingress's and the API server's.
func (h *host) askDates(ctx context.Context) []reading {
	var all []reading
	add := func(addr netip.Addr, page prober.FetchResult, when time.Time) {
		here := slices.ContainsFunc(h.addresses, func(a address.Address) bool { return a.IP == addr })
		if here || page.Date.IsZero() {
			return
		}
		all = append(all, reading{server: addr.String(), offset: page.Date.Sub(when.Add(page.FirstByte - page.Total))})
	}
	for _, vip := range h.vips.API {
		if h.seen.troubled(ctx, vip) {
			continue
		}
		page, _ := h.fetch(ctx, prober.FetchRequest{Addr: netip.AddrPortFrom(vip, prober.APIPort), Host: h.seen.name(ctx), Path: "/readyz", TLS: true})
		add(vip, page, time.Now())
	}
	for _, vip := range h.vips.Ingress {
		if h.seen.troubled(ctx, vip) {
			continue
		}
		u := h.config.Upstream
		page, _ := h.fetch(ctx, prober.FetchRequest{Addr: netip.AddrPortFrom(vip, u.InitialPort()), Host: noName, Path: "/", TLS: u.Scheme == config.SchemeHTTPS})
		add(vip, page, time.Now())
	}
	return all
}
