// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"crypto/rand"
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/probe"
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
	"github.com/http01-proxyd/http01-proxyd/pkg/upstream"
)

const (
	connectTimeout = 3 * time.Second
	// seenWithin bounds what the checks share, so that they can still judge it.
	seenWithin = remote - time.Second
	// agent tells in others' logs who asks.
	agent = status.CheckAgent
	// noName stands for the API's name where that is not known (RFC 6761).
	noName = "http01-proxyd-check.invalid"

	httpPort = 80
	acmePath = "/.well-known/acme-challenge/"
)

// seen is what the network says to what several checks want to know. All of it is
// asked for side by side, once.
type seen struct {
	names     *later[[]string]
	holders   map[netip.Addr]*later[holders]     // of each VIP
	door      map[netip.Addr]*later[probe.Fetch] // what each API VIP says to what is no challenge
	ingress   map[netip.Addr]*later[probe.Fetch] // what each ingress VIP says to a challenge
	challenge map[netip.Addr]*later[probe.Fetch] // what each API VIP says to that of --token; empty without
	dns       *later[resolved]
}

// observe begins to look. ctx lasts as long as the checks.
func observe(ctx context.Context, h *host) *seen {
	within := func(f func(context.Context)) {
		ctx, cancel := context.WithTimeout(ctx, seenWithin)
		defer cancel()
		f(ctx)
	}
	s := &seen{
		holders: make(map[netip.Addr]*later[holders]),
		door:    make(map[netip.Addr]*later[probe.Fetch]), ingress: make(map[netip.Addr]*later[probe.Fetch]),
		challenge: make(map[netip.Addr]*later[probe.Fetch]),
	}
	s.names = find(func() (names []string) {
		within(func(ctx context.Context) { names = h.findNames(ctx) })
		return names
	})
	for _, vip := range slices.Concat(h.vips.API, h.vips.Ingress) {
		if s.holders[vip] == nil {
			s.holders[vip] = find(func() (found holders) {
				within(func(ctx context.Context) { found = h.findHolders(ctx, vip) })
				return found
			})
		}
	}
	page := func(addr netip.AddrPort, path string, named bool) *later[probe.Fetch] {
		return find(func() (f probe.Fetch) {
			within(func(ctx context.Context) {
				name := noName
				if named {
					name = s.name(ctx)
				}
				f = h.fetch(ctx, probe.FetchQuestion{Addr: addr, Host: name, Path: path})
			})
			return f
		})
	}
	for _, vip := range h.doors() {
		s.door[vip] = page(netip.AddrPortFrom(vip, httpPort), "/", false)
		if h.Token != "" {
			s.challenge[vip] = page(netip.AddrPortFrom(vip, httpPort), acmePath+h.Token, true)
		}
	}
	token := h.Token
	if token == "" {
		// Nobody has asked for this one: what answers it is no solver.
		token = "http01-proxyd-check-" + rand.Text()
	}
	for _, vip := range h.vips.Ingress {
		s.ingress[vip] = page(netip.AddrPortFrom(vip, h.config.Upstream.Port), acmePath+token, true)
	}
	s.dns = find(func() (r resolved) {
		within(func(ctx context.Context) { r = h.resolve(ctx, s) })
		return r
	})
	return s
}

// name is the first name of the API.
func (s *seen) name(ctx context.Context) string {
	if names, known := s.names.wait(ctx); known && len(names) > 0 {
		return names[0]
	}
	return noName
}

// troubled reports whether a VIP is on no host that can be reached, or on two,
// which the check of the VIPs says: what is seen there says nothing more.
func (s *seen) troubled(ctx context.Context, vip netip.Addr) bool {
	l := s.holders[vip]
	if l == nil {
		return false
	}
	found, known := l.wait(ctx)
	return known && found.troubled()
}

// doors are the API VIPs on which there is to be a front door.
func (h *host) doors() []netip.Addr {
	if h.vipless() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(h.vips.API), func(vip netip.Addr) bool { return slices.Contains(h.vips.Ingress, vip) })
}

// fetch asks for a page. That it could not be asked for is a cause like others.
func (h *host) fetch(ctx context.Context, q probe.FetchQuestion) probe.Fetch {
	q.Agent, q.Connect = agent, connectTimeout
	a, err := h.network.Ask(ctx, probe.Question{Fetch: &q}, -1)
	if err != nil {
		return probe.Fetch{Cause: string(upstream.LocalResources), Detail: err.Error()}
	}
	return *a.Fetch
}
