// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	connectTimeout = 3 * time.Second
	// observeTimeout bounds what the checks share, so that they can still judge it.
	observeTimeout = networkTimeout - time.Second
	// userAgent tells in others' logs who asks.
	userAgent = report.CheckUserAgent
	// placeholderName stands for the API's name where that is not known (RFC 6761).
	placeholderName = "http01-proxyd-check.invalid"

	httpPort        = 80
	challengePrefix = "/.well-known/acme-challenge/"
)

// observed is what the network says to what several checks want to know. All of it is
// asked for side by side, once.
type observations struct {
	names          *future[[]string]
	vipHolders     map[netip.Addr]*future[vipHolders] // of each VIP
	vipRoots       map[netip.Addr]*fetchFuture        // what each API VIP says to what is no challenge
	ingressPages   map[netip.Addr]*fetchFuture        // what each ingress VIP says to a challenge
	challengePages map[netip.Addr]*fetchFuture        // what each API VIP says to that of --token; empty without
	dns            *future[dnsResult]
	trust          *future[upstreamTrust]
	viaProxy       *future[viaProxy] // how the ingress is asked
}

// observe begins to look. ctx lasts as long as the checks.
func observe(ctx context.Context, h *host) *observations {
	within := func(f func(context.Context)) {
		ctx, cancel := context.WithTimeout(ctx, observeTimeout)
		defer cancel()
		f(ctx)
	}
	s := &observations{
		vipHolders: make(map[netip.Addr]*future[vipHolders]),
		vipRoots:   make(map[netip.Addr]*fetchFuture), ingressPages: make(map[netip.Addr]*fetchFuture),
		challengePages: make(map[netip.Addr]*fetchFuture),
	}
	s.names = startFuture(func() (names []string) {
		within(func(ctx context.Context) { names = h.findAPINames(ctx) })
		return names
	})
	for _, vip := range slices.Concat(h.vips.API, h.vips.Ingress) {
		if s.vipHolders[vip] == nil {
			s.vipHolders[vip] = startFuture(func() (found vipHolders) {
				within(func(ctx context.Context) { found = h.findVIPHolders(ctx, vip) })
				return found
			})
		}
	}
	s.trust = startFuture(h.readTrust)
	s.viaProxy = startFuture(func() (g viaProxy) {
		within(func(ctx context.Context) {
			if t, known := s.trust.await(ctx); known {
				g = h.loadViaProxy(ctx, t)
			} else {
				g.err = errNoTime
			}
		})
		return g
	})
	begin := func(ask func(context.Context) (protocol.FetchResult, error)) *fetchFuture {
		return &fetchFuture{startFuture(func() (f fetchResult) {
			within(func(ctx context.Context) { f.page, f.err = ask(ctx) })
			return f
		})}
	}
	page := func(addr netip.AddrPort, path string, named bool) *fetchFuture {
		return begin(func(ctx context.Context) (protocol.FetchResult, error) {
			name := placeholderName
			if named {
				name = s.apiName(ctx)
			}
			return h.fetch(ctx, protocol.FetchRequest{Addr: addr, Host: name, Path: path})
		})
	}
	for _, vip := range h.servedVIPs() {
		s.vipRoots[vip] = page(netip.AddrPortFrom(vip, httpPort), "/", false)
		if h.Token != "" {
			s.challengePages[vip] = page(netip.AddrPortFrom(vip, httpPort), challengePrefix+h.Token, true)
		}
	}
	token := h.Token
	if token == "" {
		// Nobody has asked for this one: what answers it is no solver.
		token = "http01-proxyd-check-" + rand.Text()
	}
	for _, vip := range h.vips.Ingress {
		s.ingressPages[vip] = begin(func(ctx context.Context) (protocol.FetchResult, error) {
			g, known := s.viaProxy.await(ctx)
			if !known {
				return protocol.FetchResult{}, errNoTime
			}
			return h.fetchViaProxy(ctx, g, vip, s.apiName(ctx), challengePrefix+token)
		})
	}
	s.dns = startFuture(func() (r dnsResult) {
		within(func(ctx context.Context) { r = h.resolveNames(ctx, s) })
		return r
	})
	return s
}

// apiName is the first name of the API.
func (s *observations) apiName(ctx context.Context) string {
	if names, known := s.names.await(ctx); known && len(names) > 0 {
		return names[0]
	}
	return placeholderName
}

// faulty reports whether a VIP is on no host that can be reached, or on two,
// which the check of the VIPs says: what is seen there says nothing more.
func (s *observations) vipFaulty(ctx context.Context, vip netip.Addr) bool {
	l := s.vipHolders[vip]
	if l == nil {
		return false
	}
	found, known := l.await(ctx)
	return known && found.faulty()
}

// servedVIPs are the API VIPs on which there is to be a front door.
func (h *host) servedVIPs() []netip.Addr {
	if h.noUsableVIPs() {
		return nil
	}
	if h.microShiftState.active {
		return slices.Concat(h.ownership.Held, h.ownership.Standby)
	}
	return slices.DeleteFunc(slices.Clone(h.vips.API), func(vip netip.Addr) bool { return slices.Contains(h.vips.Ingress, vip) })
}

// fetchResult is a page that was asked for, or why it could not be.
type fetchResult struct {
	page protocol.FetchResult
	err  error
}

// fetchFuture is a page that is being asked for.
type fetchFuture struct{ future *future[fetchResult] }

// await waits for the page; known is false when it could not be asked for, or not
// in time.
func (f *fetchFuture) await(ctx context.Context) (page protocol.FetchResult, known bool) {
	got, known := f.future.await(ctx)
	return got.page, known && got.err == nil
}

// errNoTime is a question that was not given the time that it takes.
var errNoTime = errors.New("there was no time left to ask")

// fetch asks for a page. An error means that it could not be asked for, which
// says nothing of who should have answered.
func (h *host) fetch(ctx context.Context, q protocol.FetchRequest) (protocol.FetchResult, error) {
	q.UserAgent, q.ConnectTimeout = userAgent, connectTimeout
	a, err := h.prober.Query(ctx, protocol.Request{Fetch: &q})
	switch {
	case err != nil:
		return protocol.FetchResult{}, err
	case upstream.Cause(a.Fetch.Cause) == upstream.ConnectTimeout && a.Fetch.Total < connectTimeout-timerSlack && deadlineNear(ctx):
		return protocol.FetchResult{}, errNoTime
	default:
		return *a.Fetch, nil
	}
}

// timerSlack is by how much a timer may be early, or an answer late.
const timerSlack = 500 * time.Millisecond

// deadlineNear reports whether ctx's deadline is what ended a question.
func deadlineNear(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return bounded && time.Until(deadline) < timerSlack
}
