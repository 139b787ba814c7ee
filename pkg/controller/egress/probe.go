// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/resolve"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

const (
	// probeTimeout bounds the probe of one readiness endpoint, with its lookups.
	probeTimeout = 10 * time.Second
	// LookupTimeout bounds the lookup of one name. The first settings wait for the address of the
	// proxy: a challenge fails without it.
	LookupTimeout = 4 * time.Second
)

// proxyAuthRequired is 407 (RFC 9110 section 15.5.8). The controller does not link
// net/http.
const proxyAuthRequired = 407

// lookup is the result of resolving a name.
type lookup struct {
	addrs []netip.Addr
	err   error
}

// network queries the network through a prober process, which ends with each query.
type network struct{ resolvConf, hosts string }

// each runs query for 0 to n-1 concurrently in one prober process. An error means that it cannot start.
func (w network) each(
	ctx context.Context, limit time.Duration, n int, query func(context.Context, session, int),
) error {
	client, err := prober.Start()
	if err != nil {
		return err
	}
	defer client.Close()
	s := session{client, resolve.Resolver{ConfPath: w.resolvConf, HostsPath: w.hosts, Query: client.Lookup}}
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			query(ctx, s, i)
		})
	}
	group.Wait()
	return nil
}

// session is a running prober process, and the resolver that uses it.
type session struct {
	client   *prober.Client
	resolver resolve.Resolver
}

// resolve resolves the names.
func (w network) resolve(ctx context.Context, names []string) []lookup {
	found := make([]lookup, len(names))
	if err := w.each(ctx, LookupTimeout, len(names), func(ctx context.Context, s session, i int) {
		found[i].addrs, found[i].err = s.resolver.Lookup(ctx, names[i])
	}); err != nil {
		return slices.Repeat([]lookup{{err: err}}, len(names))
	}
	return found
}

// probe requests the endpoints of a configuration, and returns for each why it failed, or "".
func (w network) probe(ctx context.Context, c egress.Configuration, automatic []string, system [][]byte) []string {
	failures := make([]string, len(c.Endpoints))
	roots := slices.Concat(system, c.Roots)
	if err := w.each(ctx, probeTimeout, len(c.Endpoints), func(ctx context.Context, s session, i int) {
		target, err := url.Parse(c.Endpoints[i])
		if err != nil {
			failures[i] = "invalid URL" // the configuration contains none
			return
		}
		failures[i] = s.probe(ctx, target, c.Settings.ProxyFor(target, automatic), roots)
	}); err != nil {
		return slices.Repeat([]string{err.Error()}, len(c.Endpoints))
	}
	return failures
}

func (s session) probe(ctx context.Context, target, proxy *url.URL, roots [][]byte) string {
	request := protocol.EndpointRequest{URL: target.String(), Roots: roots}
	next := target
	if proxy != nil {
		next, request.Proxy = proxy, proxy.String()
	}
	addrs, err := s.resolver.Lookup(ctx, next.Hostname())
	if err != nil {
		return err.Error()
	}
	for _, addr := range addrs {
		request.Addrs = append(request.Addrs, netip.AddrPortFrom(addr, egress.Port(next)))
	}
	response, err := s.client.Query(ctx, protocol.Request{Endpoint: &request})
	if err != nil {
		return err.Error()
	}
	return failureReason(response.Endpoint, target.Hostname(), proxy)
}

// failureReason describes why a response does not count as ready, or returns "".
func failureReason(r *protocol.EndpointResult, host string, proxy *url.URL) string {
	name := egress.Redact(proxy)
	switch {
	case r.OK():
		return ""
	case proxy != nil && (r.Status == proxyAuthRequired || r.ProxyStatus == proxyAuthRequired):
		return fmt.Sprintf("the proxy %s rejects the credentials (407): "+
			"correct user and password in its URL, percent-encoded", name)
	case r.ProxyStatus != 0:
		return fmt.Sprintf("the proxy %s refuses the connection to it (%d): allow it there", name, r.ProxyStatus)
	case r.Status != 0:
		return fmt.Sprintf("the response status is %d, not 2xx or 3xx: correct the endpoint's server, "+
			"or name another URL in egressProxy.readinessEndpoints", r.Status)
	}
	way := fmt.Sprintf("directly (%v), because the no-proxy list contains it", r.LastAddr)
	if proxy != nil {
		way = fmt.Sprintf("through the proxy %s (%v)", name, r.LastAddr)
	}
	const cas = "the CAs for the egress proxy (egressProxy.trustedCA, and those that this host trusts)"
	known := cause.Context{Host: host, TrustedCAs: cas}
	return way + ": " + r.Details.Text(known)
}
