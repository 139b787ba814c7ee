// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/resolve"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

const (
	// endpointTimeout bounds the probe of one readiness endpoint, with its lookups.
	endpointTimeout = 10 * time.Second
	// resolveTimeout bounds the lookup of one name.
	resolveTimeout = 10 * time.Second
)

// proxyAuthRequired is 407 (RFC 9110 section 15.5.8). The controller does not link
// net/http.
const proxyAuthRequired = 407

// networkProber queries the network.
type networkProber interface {
	// probeEndpoints returns, for each probe, why it failed, or "".
	probeEndpoints(ctx context.Context, probes []endpointProbe, roots [][]byte) []string
	resolve(ctx context.Context, names []string) map[string]lookup
}

// endpointProbe is a readiness endpoint and the proxy to it; nil means directly.
type endpointProbe struct {
	target, proxy *url.URL
}

// childNetworkProber queries through a prober process, which ends with the probes.
type childNetworkProber struct{ resolvConf, hosts string }

func (c childNetworkProber) resolve(ctx context.Context, names []string) map[string]lookup {
	all := make(map[string]lookup)
	client, err := prober.Start()
	if err != nil {
		for _, name := range names {
			all[name] = lookup{err: err}
		}
		return all
	}
	defer client.Close()
	r := resolve.Resolver{ConfPath: c.resolvConf, HostsPath: c.hosts, Query: client.Lookup}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, name := range names {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
			defer cancel()
			addrs, err := r.Lookup(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			all[name] = lookup{addrs, err}
		})
	}
	group.Wait()
	return all
}

func (c childNetworkProber) probeEndpoints(ctx context.Context, probes []endpointProbe, roots [][]byte) []string {
	failures := make([]string, len(probes))
	client, err := prober.Start()
	if err != nil {
		for i := range failures {
			failures[i] = err.Error()
		}
		return failures
	}
	defer client.Close()
	r := resolve.Resolver{ConfPath: c.resolvConf, HostsPath: c.hosts, Query: client.Lookup}
	var group sync.WaitGroup
	for i, p := range probes {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, endpointTimeout)
			defer cancel()
			failures[i] = p.run(ctx, client, r, roots)
		})
	}
	group.Wait()
	return failures
}

// run probes one endpoint, and returns why it failed.
func (p endpointProbe) run(ctx context.Context, client *prober.Client, r resolve.Resolver, roots [][]byte) string {
	if p.target == nil {
		return "invalid URL"
	}
	to, through := p.target, ""
	if p.proxy != nil {
		to, through = p.proxy, p.proxy.String()
	}
	addrs, err := r.Lookup(ctx, to.Hostname())
	if err != nil {
		return err.Error()
	}
	request := protocol.EndpointRequest{URL: p.target.String(), Proxy: through, Roots: roots}
	for _, addr := range addrs {
		request.Addrs = append(request.Addrs, netip.AddrPortFrom(addr, egress.Port(to)))
	}
	response, err := client.Query(ctx, protocol.Request{Endpoint: &request})
	if err != nil {
		return err.Error()
	}
	return p.failureReason(response.Endpoint)
}

// failureReason describes why a response does not count as ready, or returns "".
func (p endpointProbe) failureReason(r *protocol.EndpointResult) string {
	causes := cause.Context{Host: p.target.Hostname(), TrustedCAs: "the CAs for the egress proxy (egressProxy.trustedCA, and those that this host trusts)"}
	proxy := "none"
	if p.proxy != nil {
		proxy = egress.Redact(p.proxy)
	}
	switch {
	case r.OK():
		return ""
	case p.proxy != nil && (r.Status == proxyAuthRequired || r.ProxyStatus == proxyAuthRequired):
		return fmt.Sprintf("the proxy %s rejects the credentials (407): correct user and password in its URL, percent-encoded", proxy)
	case r.ProxyStatus != 0:
		return fmt.Sprintf("the proxy %s refuses the connection to it (%d): allow it there", proxy, r.ProxyStatus)
	case r.Status != 0:
		return fmt.Sprintf("the response status is %d, not 2xx or 3xx: correct the endpoint's server, or name another URL in egressProxy.readinessEndpoints", r.Status)
	case p.proxy != nil:
		return fmt.Sprintf("through the proxy %s (%v): %s", proxy, r.LastAddr, r.Details.Text(causes))
	default:
		return fmt.Sprintf("directly (%v), because the no-proxy list contains it: %s", r.LastAddr, r.Details.Text(causes))
	}
}
