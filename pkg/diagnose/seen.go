// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	connectTimeout = 3 * time.Second
	// seenWithin bounds what the checks share, so that they can still judge it.
	seenWithin = remote - time.Second
	// agent tells in others' logs who asks.
	agent = report.CheckUserAgent
	// noName stands for the API's name where that is not known (RFC 6761).
	noName = "http01-proxyd-check.invalid"

	httpPort = 80
	acmePath = "/.well-known/acme-challenge/"
)

// seen is what the network says to what several checks want to know. All of it is
// asked for side by side, once.
type seen struct {
	names     *later[[]string]
	holders   map[netip.Addr]*later[holders] // of each VIP
	door      map[netip.Addr]*fetching       // what each API VIP says to what is no challenge
	ingress   map[netip.Addr]*fetching       // what each ingress VIP says to a challenge
	challenge map[netip.Addr]*fetching       // what each API VIP says to that of --token; empty without
	dns       *later[resolved]
	trust     *later[trusted]
	gate      *later[asGate] // how the ingress is asked
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
		door:    make(map[netip.Addr]*fetching), ingress: make(map[netip.Addr]*fetching),
		challenge: make(map[netip.Addr]*fetching),
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
	s.trust = find(h.readTrust)
	s.gate = find(func() (g asGate) {
		within(func(ctx context.Context) {
			if t, known := s.trust.wait(ctx); known {
				g = h.findAsGate(ctx, t)
			} else {
				g.err = errCut
			}
		})
		return g
	})
	begin := func(ask func(context.Context) (prober.FetchResult, error)) *fetching {
		return &fetching{find(func() (f fetched) {
			within(func(ctx context.Context) { f.page, f.err = ask(ctx) })
			return f
		})}
	}
	page := func(addr netip.AddrPort, path string, named bool) *fetching {
		return begin(func(ctx context.Context) (prober.FetchResult, error) {
			name := noName
			if named {
				name = s.name(ctx)
			}
			return h.fetch(ctx, prober.FetchRequest{Addr: addr, Host: name, Path: path})
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
		s.ingress[vip] = begin(func(ctx context.Context) (prober.FetchResult, error) {
			g, known := s.gate.wait(ctx)
			if !known {
				return prober.FetchResult{}, errCut
			}
			return h.askAsGate(ctx, g, vip, s.name(ctx), acmePath+token)
		})
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
	if h.edge.is {
		return slices.Concat(h.held.Held, h.held.Standby)
	}
	return slices.DeleteFunc(slices.Clone(h.vips.API), func(vip netip.Addr) bool { return slices.Contains(h.vips.Ingress, vip) })
}

// fetched is a page that was asked for, or why it could not be.
type fetched struct {
	page prober.FetchResult
	err  error
}

// fetching is a page that is being asked for.
type fetching struct{ found *later[fetched] }

// wait waits for the page; known is false when it could not be asked for, or not
// in time.
func (f *fetching) wait(ctx context.Context) (page prober.FetchResult, known bool) {
	got, known := f.found.wait(ctx)
	return got.page, known && got.err == nil
}

// errCut is a question that was not given the time that it takes.
var errCut = errors.New("there was no time left to ask")

// fetch asks for a page. An error means that it could not be asked for, which
// says nothing of who should have answered.
func (h *host) fetch(ctx context.Context, q prober.FetchRequest) (prober.FetchResult, error) {
	q.UserAgent, q.ConnectTimeout = agent, connectTimeout
	a, err := h.network.Query(ctx, prober.Request{Fetch: &q})
	switch {
	case err != nil:
		return prober.FetchResult{}, err
	case upstream.Cause(a.Fetch.Cause) == upstream.ConnectTimeout && a.Fetch.Total < connectTimeout-slack && nearlyOver(ctx):
		return prober.FetchResult{}, errCut
	default:
		return *a.Fetch, nil
	}
}

// slack is by how much a timer may be early, or an answer late.
const slack = 500 * time.Millisecond

// nearlyOver reports whether ctx's deadline is what ended a question.
func nearlyOver(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return bounded && time.Until(deadline) < slack
}
