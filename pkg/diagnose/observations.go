// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/dns"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/response"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/selfcheck"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/service"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/resolve"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	connectTimeout = 3 * time.Second
	// observeTimeout bounds the shared observations, so that enough time is left to evaluate
	// them.
	observeTimeout = networkTimeout - time.Second
	// userAgent identifies the requests in other programs' logs.
	userAgent = report.CheckUserAgent
	// placeholderName replaces an unknown API name (RFC 6761).
	placeholderName = "http01-proxyd-check.invalid"

	httpPort        = selfcheck.HTTPPort
	challengePrefix = "/.well-known/acme-challenge/"
)

// observations are this host and network observations that several checks use. Each is
// made once, concurrently with the others, and may use the results of others.
type observations struct {
	host

	prober         *prober.Client
	apiNames       *future[[]string]
	vipRoots       pages                  // of each API VIP, to a test request
	ingressPages   pages                  // of each ingress VIP, to a challenge
	challengePages pages                  // of each API VIP, to the challenge of --token, or empty
	challengeLog   *future[selfcheck.Log] // about the challenge of --token
	dns            *future[dns.Answers]
	trust          *future[trust.Sources]
	route          *future[egress.Route] // to the ingress
}

// newObservations prepares the observations of a host. Each starts when a check needs it, so
// that no observation can use an incomplete value. ctx lasts as long as the checks.
func newObservations(ctx context.Context, h host, client *prober.Client) *observations {
	o := &observations{
		host: h, prober: client,
		vipRoots: make(pages), ingressPages: make(pages), challengePages: make(pages),
	}
	o.apiNames = observe(ctx, o.findAPINames)
	o.trust = observe(ctx, func(context.Context) trust.Sources { return trust.Read(h.config, h.StateDir, h.privileged) })
	o.route = observe(ctx, func(ctx context.Context) egress.Route {
		t, known := o.trust.await(ctx)
		if !known {
			return egress.Route{Err: errNoTime}
		}
		return h.egress().FindRoute(ctx, h.VIPs.Ingress, t, o.resolver())
	})
	for _, vip := range h.VIPs.Served() {
		o.vipRoots.add(ctx, vip, func(ctx context.Context) (protocol.FetchResult, error) { return o.fetchVIP(ctx, vip) })
		if h.Token != "" {
			o.challengePages.add(ctx, vip, func(ctx context.Context) (protocol.FetchResult,
				error,
			) {
				return o.fetchChallenge(ctx, vip)
			})
		}
	}
	o.challengeLog = newFuture(func() selfcheck.Log {
		ctx, cancel := context.WithTimeout(ctx, traceTimeout-time.Second)
		defer cancel()
		return o.watchChallengeLog(ctx)
	})
	token := h.Token
	if token == "" {
		// This token does not exist, so that whatever responds is not its solver.
		token = "http01-proxyd-check-" + rand.Text()
	}
	for _, vip := range h.VIPs.Ingress {
		o.ingressPages.add(ctx, vip, func(ctx context.Context) (protocol.FetchResult, error) {
			route, known := o.route.await(ctx)
			if !known {
				return protocol.FetchResult{}, errNoTime
			}
			return o.fetchIngress(ctx, route, vip, challengePrefix+token)
		})
	}
	o.dns = observe(ctx, o.resolveNames)
	return o
}

// observe is an observation that ends within observeTimeout.
func observe[T any](ctx context.Context, observe func(context.Context) T) *future[T] {
	return newFuture(func() T {
		ctx, cancel := context.WithTimeout(ctx, observeTimeout)
		defer cancel()
		return observe(ctx)
	})
}

// pages are responses by address.
type pages map[netip.Addr]*future[fetchResult]

// fetchResult is a response, or the error of the request.
type fetchResult struct {
	page protocol.FetchResult
	err  error
}

func (p pages) add(ctx context.Context, addr netip.Addr, request func(context.Context) (protocol.FetchResult, error)) {
	p[addr] = observe(ctx, func(ctx context.Context) (f fetchResult) {
		f.page, f.err = request(ctx)
		return f
	})
}

// await waits for the responses. It leaves out VIPs whose request fails or takes too long.
func (p pages) await(ctx context.Context) map[netip.Addr]protocol.FetchResult {
	known := make(map[netip.Addr]protocol.FetchResult)
	for addr, f := range awaitAll(ctx, p) {
		if f.err == nil {
			known[addr] = f.page
		}
	}
	return known
}

// namesOfAPI are the names of the API.
func (o *observations) namesOfAPI(ctx context.Context) []string {
	names, _ := o.apiNames.await(ctx)
	return names
}

// apiName is the first name of the API; empty if it is unknown.
func (o *observations) apiName(ctx context.Context) string {
	if names := o.namesOfAPI(ctx); len(names) > 0 {
		return names[0]
	}
	return ""
}

// isCutOff reports whether a VIP is on a link of this host that is down. The check of the
// VIPs reports that, and observations at the VIP add nothing.
func (o *observations) isCutOff(vip netip.Addr) bool { return o.DownLink(vip) != nil }

// vipResponses waits for the responses of the API VIPs, except VIPs that are cut off.
func (o *observations) vipResponses(ctx context.Context) (all selfcheck.Responses) {
	roots := o.vipRoots.await(ctx)
	for _, vip := range o.VIPs.Served() {
		if page, known := roots[vip]; known && !o.isCutOff(vip) {
			all.Add(selfcheck.Response{VIP: vip, Held: o.VIPs.Holds(vip), Page: page})
		}
	}
	return all
}

// watchChallengeLog waits for a request of cert-manager for the challenge of --token. It
// expects one if this host holds all API VIPs and serves the key of the token there: the log of
// this host contains only requests at its own VIPs.
func (o *observations) watchChallengeLog(ctx context.Context) selfcheck.Log {
	served := o.VIPs.Served()
	if o.Token == "" || len(served) == 0 || !o.service.IsServing() {
		return selfcheck.Log{}
	}
	if o.VIPs.BGP {
		const reason = "BGP sends requests to several hosts, and the challenge log has those of this host only"
		return selfcheck.Log{Unknown: reason}
	}
	known := o.challengePages.await(ctx)
	for _, vip := range served {
		page := known[vip]
		if fault := response.KeyFault(page.Body, page.Length, o.Token); !o.VIPs.Holds(vip) || !response.IsCompleteOK(page) ||
			fault != "" {
			return selfcheck.Log{}
		}
	}
	query := func() (report.Report, error) { return service.Query(ctx, o.StatusSocket) }
	return selfcheck.WatchLog(ctx, query, o.Token)
}

// resolver resolves names with the files and DNS servers of this host.
func (o *observations) resolver() resolve.Resolver {
	return resolve.Resolver{ConfPath: o.ResolvConf, HostsPath: o.HostsFile, Query: o.prober.Lookup}
}

// resolveNames queries all servers for all names.
func (o *observations) resolveNames(ctx context.Context) dns.Answers {
	names := o.namesOfAPI(ctx)
	servers, err := dns.Servers(o.ResolvConf, o.Has)
	switch {
	case err != nil:
		return dns.Answers{Reason: err.Error()}
	case len(names) == 0:
		return dns.Answers{Reason: "the API's name is unknown (set --name)"}
	case len(servers) == 0:
		return dns.Answers{Reason: "there is no nameserver in " + o.ResolvConf}
	}
	return dns.Resolve(ctx, servers, names[:min(len(names), maxNames)], o.lookup)
}

func (o *observations) lookup(ctx context.Context, server dns.Server, name string) dns.View {
	begin := time.Now()
	a, err := o.prober.Query(ctx, protocol.Request{Lookup: &protocol.LookupRequest{Server: server.Addr, Name: name}})
	v := dns.View{Server: server, Name: name, Took: time.Since(begin), Err: err}
	if err == nil {
		v.LookupResult = *a.Lookup
	}
	return v
}

// errNoTime: a request did not get the time that it needs.
var errNoTime = errors.New("no time left for the request")

// fetch sends a request. An error means that the request was not sent, which indicates
// nothing about the server.
func (o *observations) fetch(ctx context.Context, q protocol.FetchRequest) (protocol.FetchResult, error) {
	q.UserAgent, q.ConnectTimeout = userAgent, connectTimeout
	if q.Host == "" {
		q.Host = placeholderName
	}
	a, err := o.prober.Query(ctx, protocol.Request{Fetch: &q})
	switch {
	case err != nil:
		return protocol.FetchResult{}, err
	case response.Fault(*a.Fetch) == findings.IngressTimeout && a.Fetch.Total < connectTimeout-timerSlack &&
		deadlineNear(ctx):
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

// fetchVIP sends a test request to port 80 of a VIP, which the service does not count as a
// rejected one.
func (o *observations) fetchVIP(ctx context.Context, vip netip.Addr) (protocol.FetchResult, error) {
	return o.fetch(ctx, protocol.FetchRequest{Addr: netip.AddrPortFrom(vip, httpPort), Path: report.TestPath})
}

// fetchChallenge requests the challenge of --token at an address.
func (o *observations) fetchChallenge(ctx context.Context, addr netip.Addr) (protocol.FetchResult, error) {
	return o.fetch(ctx, protocol.FetchRequest{
		Addr: netip.AddrPortFrom(addr, httpPort), Host: o.apiName(ctx),
		Path: challengePrefix + o.Token,
	})
}

// fetchIngress requests a challenge from an ingress VIP like the proxy does.
func (o *observations) fetchIngress(ctx context.Context, r egress.Route, vip netip.Addr,
	path string,
) (protocol.FetchResult, error) {
	if r.Err != nil {
		return protocol.FetchResult{}, r.Err
	}
	settings := ingress.FromConfig(o.config.Upstream, []netip.Addr{vip})
	settings.ConnectTimeout = connectTimeout
	page, err := o.fetch(ctx, protocol.FetchRequest{
		Addr: netip.AddrPortFrom(vip, o.config.Upstream.InitialPort()), Host: o.apiName(ctx), Path: path,
		ViaProxy: &protocol.ProxyExchange{
			Client: o.clientAddress(vip), VIP: o.apiVIPFor(vip), Upstream: settings, CAs: r.CAs,
			Egress: &r.Egress,
		},
	})
	if r.Unresolved != nil {
		page.Context.ProxyLookupError = r.Unresolved.Error()
	}
	return page, err
}

// apiVIPFor is the API VIP in the address family of an ingress VIP, to which a client
// would connect.
func (o *observations) apiVIPFor(ingress netip.Addr) netip.AddrPort {
	i := slices.IndexFunc(o.VIPs.API, func(vip netip.Addr) bool { return vip.Is4() == ingress.Is4() })
	if i < 0 {
		return netip.AddrPortFrom(ingress, httpPort)
	}
	return netip.AddrPortFrom(o.VIPs.API[i], httpPort)
}

// clientPort is arbitrary, because nothing listens on it.
const clientPort = 49152

// clientAddress is this host as the client that the router learns of.
func (o *observations) clientAddress(ingress netip.Addr) netip.AddrPort {
	w, err := o.PathTo(ingress)
	if err != nil || !w.Source.IsValid() {
		return netip.AddrPortFrom(o.apiVIPFor(ingress).Addr(), clientPort)
	}
	return netip.AddrPortFrom(w.Source, clientPort)
}
