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
	// endpointTimeout bounds the question to one readiness endpoint, names and all.
	endpointTimeout = 10 * time.Second
	// resolveTimeout bounds the resolving of one name.
	resolveTimeout = 10 * time.Second
)

// proxyAuthRequired is 407 (RFC 9110 section 15.5.8). The keeper has no net/http.
const proxyAuthRequired = 407

// networkProber asks the network.
type networkProber interface {
	// ask returns, for each question, why there was no answer, or "".
	probeEndpoints(ctx context.Context, questions []endpointProbe, roots [][]byte) []string
	resolve(ctx context.Context, names []string) map[string]lookup
}

// endpointProbe asks a readiness endpoint. proxy is nil where none leads there.
type endpointProbe struct {
	target, proxy *url.URL
}

// childNetworkProber does it through a child, which ends with the questions.
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
	r := client.Resolver(c.resolvConf, c.hosts)
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

func (c childNetworkProber) probeEndpoints(ctx context.Context, questions []endpointProbe, roots [][]byte) []string {
	why := make([]string, len(questions))
	client, err := prober.Start()
	if err != nil {
		for i := range why {
			why[i] = err.Error()
		}
		return why
	}
	defer client.Close()
	r := client.Resolver(c.resolvConf, c.hosts)
	var group sync.WaitGroup
	for i, q := range questions {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, endpointTimeout)
			defer cancel()
			why[i] = q.run(ctx, client, r, roots)
		})
	}
	group.Wait()
	return why
}

// request asks one endpoint, and says why there was no answer.
func (q endpointProbe) run(ctx context.Context, client *prober.Client, r resolve.Resolver, roots [][]byte) string {
	if q.target == nil {
		return "its URL is none"
	}
	to, through := q.target, ""
	if q.proxy != nil {
		to, through = q.proxy, q.proxy.String()
	}
	addrs, err := r.Lookup(ctx, to.Hostname())
	if err != nil {
		return err.Error()
	}
	question := protocol.EndpointRequest{URL: q.target.String(), Proxy: through, Roots: roots}
	for _, addr := range addrs {
		question.Addrs = append(question.Addrs, netip.AddrPortFrom(addr, egress.Port(to)))
	}
	a, err := client.Query(ctx, protocol.Request{Endpoint: &question})
	if err != nil {
		return err.Error()
	}
	return q.failureReason(a.Endpoint)
}

// failureReason says in words why an answer does not count, if it does not.
func (q endpointProbe) failureReason(t *protocol.EndpointResult) string {
	known := cause.Context{Host: q.target.Hostname(), TrustedCAs: "what is trusted for the egress proxy (egressProxy.trustedCA, and what this host trusts)"}
	proxy := "nobody"
	if q.proxy != nil {
		proxy = egress.Redact(q.proxy)
	}
	switch {
	case t.OK():
		return ""
	case q.proxy != nil && (t.Status == proxyAuthRequired || t.ProxyStatus == proxyAuthRequired):
		return fmt.Sprintf("the proxy %s wants other credentials (407): correct user and password in its URL, percent-encoded", proxy)
	case t.ProxyStatus != 0:
		return fmt.Sprintf("the proxy %s refuses to connect to it (%d): allow it there", proxy, t.ProxyStatus)
	case t.Status != 0:
		return fmt.Sprintf("the answer is %d, and not 2xx or 3xx: let its server answer so, or name another URL in egressProxy.readinessEndpoints", t.Status)
	case q.proxy != nil:
		return fmt.Sprintf("through the proxy %s (%v): %s", proxy, t.LastAddr, t.Details.Text(known))
	default:
		return fmt.Sprintf("directly (%v), since the no-proxy list has it: %s", t.LastAddr, t.Details.Text(known))
	}
}
