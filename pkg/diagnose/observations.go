// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/network"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	connectTimeout = 3 * time.Second
	// observeTimeout bounds the shared observations, so that the checks have time to
	// evaluate them.
	observeTimeout = networkTimeout - time.Second
	// userAgent identifies the requests in other programs' logs.
	userAgent = report.CheckUserAgent
	// placeholderName replaces an unknown API name (RFC 6761).
	placeholderName = "http01-proxyd-check.invalid"

	httpPort        = 80
	challengePrefix = "/.well-known/acme-challenge/"
)

// observations are network observations that several checks use. Each is made once,
// concurrently with the others, and may use the results of others.
type observations struct {
	names          *future[[]string]
	vipHolders     map[netip.Addr]*future[network.Holders] // of each VIP
	vipRoots       map[netip.Addr]*fetchFuture             // response of each API VIP to a request that is not a challenge
	ingressPages   map[netip.Addr]*fetchFuture             // response of each ingress VIP to a challenge
	challengePages map[netip.Addr]*fetchFuture             // response of each API VIP to the challenge of --token; empty without one
	dns            *future[dnsResult]
	trust          *future[upstreamTrust]
	viaProxy       *future[viaProxy] // how requests to the ingress are sent

	starts []func()
}

// newObservations prepares the observations of a host. Nothing runs before start, so that
// no observation can use an incomplete value. ctx lasts as long as the checks.
func newObservations(ctx context.Context, h *host) *observations {
	s := &observations{
		vipHolders: make(map[netip.Addr]*future[network.Holders]),
		vipRoots:   make(map[netip.Addr]*fetchFuture), ingressPages: make(map[netip.Addr]*fetchFuture),
		challengePages: make(map[netip.Addr]*fetchFuture),
	}
	s.names = observation(ctx, s, h.findAPINames)
	for _, vip := range slices.Concat(h.vips.API, h.vips.Ingress) {
		if s.vipHolders[vip] == nil {
			s.vipHolders[vip] = observation(ctx, s, func(ctx context.Context) network.Holders { return h.findVIPHolders(ctx, vip) })
		}
	}
	s.trust = observation(ctx, s, func(context.Context) upstreamTrust { return h.readTrust() })
	s.viaProxy = observation(ctx, s, func(ctx context.Context) viaProxy {
		t, known := s.trust.await(ctx)
		if !known {
			return viaProxy{err: errNoTime}
		}
		return h.loadViaProxy(ctx, t)
	})
	for _, vip := range h.servedVIPs() {
		at := netip.AddrPortFrom(vip, httpPort)
		s.vipRoots[vip] = s.fetch(ctx, func(ctx context.Context) (protocol.FetchResult, error) {
			return h.fetch(ctx, protocol.FetchRequest{Addr: at, Host: placeholderName, Path: "/"})
		})
		if h.Token != "" {
			s.challengePages[vip] = s.fetch(ctx, func(ctx context.Context) (protocol.FetchResult, error) {
				return h.fetch(ctx, protocol.FetchRequest{Addr: at, Host: s.apiName(ctx), Path: challengePrefix + h.Token})
			})
		}
	}
	token := h.Token
	if token == "" {
		// This token does not exist, so that whatever responds is not its solver.
		token = "http01-proxyd-check-" + rand.Text()
	}
	for _, vip := range h.vips.Ingress {
		s.ingressPages[vip] = s.fetch(ctx, func(ctx context.Context) (protocol.FetchResult, error) {
			settings, known := s.viaProxy.await(ctx)
			if !known {
				return protocol.FetchResult{}, errNoTime
			}
			return h.fetchViaProxy(ctx, settings, vip, s.apiName(ctx), challengePrefix+token)
		})
	}
	s.dns = observation(ctx, s, func(ctx context.Context) dnsResult { return h.resolveNames(ctx, s) })
	return s
}

// observation adds an observation that ends within observeTimeout.
func observation[T any](ctx context.Context, s *observations, observe func(context.Context) T) *future[T] {
	f := newFuture(func() T {
		ctx, cancel := context.WithTimeout(ctx, observeTimeout)
		defer cancel()
		return observe(ctx)
	})
	s.starts = append(s.starts, f.start)
	return f
}

// fetch adds a request.
func (s *observations) fetch(ctx context.Context, request func(context.Context) (protocol.FetchResult, error)) *fetchFuture {
	return &fetchFuture{observation(ctx, s, func(ctx context.Context) (f fetchResult) {
		f.page, f.err = request(ctx)
		return f
	})}
}

// start starts all observations.
func (s *observations) start() {
	for _, start := range s.starts {
		start()
	}
}

// apiName is the first name of the API.
func (s *observations) apiName(ctx context.Context) string {
	if names, known := s.names.await(ctx); known && len(names) > 0 {
		return names[0]
	}
	return placeholderName
}

// vipFaulty reports whether a VIP is on no reachable host, or on two. The check of the
// VIP holders reports that, and observations at the VIP add nothing.
func (s *observations) vipFaulty(ctx context.Context, vip netip.Addr) bool {
	l := s.vipHolders[vip]
	if l == nil {
		return false
	}
	found, known := l.await(ctx)
	return known && found.Faulty()
}

// servedVIPs are the API VIPs that http01-proxyd must serve.
func (h *host) servedVIPs() []netip.Addr {
	if h.noUsableVIPs() {
		return nil
	}
	if h.microShiftState.active {
		return slices.Concat(h.ownership.Held, h.ownership.Standby)
	}
	return slices.DeleteFunc(slices.Clone(h.vips.API), func(vip netip.Addr) bool { return slices.Contains(h.vips.Ingress, vip) })
}

// fetchResult is a response, or the error of the request.
type fetchResult struct {
	page protocol.FetchResult
	err  error
}

// fetchFuture is a request in progress.
type fetchFuture struct{ future *future[fetchResult] }

// await waits for the response; known is false if the request failed or is not finished
// in time.
func (f *fetchFuture) await(ctx context.Context) (page protocol.FetchResult, known bool) {
	got, known := f.future.await(ctx)
	return got.page, known && got.err == nil
}

// errNoTime: a request did not get the time that it needs.
var errNoTime = errors.New("no time left for the request")

// fetch sends a request. An error means that the request was not sent, which indicates
// nothing about the server.
func (h *host) fetch(ctx context.Context, q protocol.FetchRequest) (protocol.FetchResult, error) {
	q.UserAgent, q.ConnectTimeout = userAgent, connectTimeout
	a, err := h.prober.Query(ctx, protocol.Request{Fetch: &q})
	switch {
	case err != nil:
		return protocol.FetchResult{}, err
	case pageFault(*a.Fetch) == findings.IngressTimeout && a.Fetch.Total < connectTimeout-timerSlack && deadlineNear(ctx):
		return protocol.FetchResult{}, errNoTime
	default:
		return *a.Fetch, nil
	}
}

// timerSlack is the tolerance for early timers and late responses.
const timerSlack = 500 * time.Millisecond

// deadlineNear reports whether ctx's deadline ended a request.
func deadlineNear(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return bounded && time.Until(deadline) < timerSlack
}
