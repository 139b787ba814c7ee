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
)

const (
	// endpointTime bounds the question to one readiness endpoint, names and all.
	endpointTime = 10 * time.Second
	// resolveTime bounds the resolving of one name.
	resolveTime = 10 * time.Second
)

// proxyAuthRequired is 407 (RFC 9110 section 15.5.8). The keeper has no net/http.
const proxyAuthRequired = 407

// asker asks the network.
type asker interface {
	// ask returns, for each question, why there was no answer, or "".
	ask(ctx context.Context, questions []endpointQuestion, roots [][]byte) []string
	resolve(ctx context.Context, names []string) map[string]found
}

// endpointQuestion asks a readiness endpoint. proxy is nil where none leads there.
type endpointQuestion struct {
	target, proxy *url.URL
}

// childAsker does it through a child, which ends with the questions.
type childAsker struct{ resolvConf, hosts string }

func (c childAsker) resolve(ctx context.Context, names []string) map[string]found {
	all := make(map[string]found)
	client, err := prober.Start()
	if err != nil {
		for _, name := range names {
			all[name] = found{err: err}
		}
		return all
	}
	defer client.Close()
	r := client.Resolver(c.resolvConf, c.hosts)
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, name := range names {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, resolveTime)
			defer cancel()
			addrs, err := r.Addresses(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			all[name] = found{addrs, err}
		})
	}
	group.Wait()
	return all
}

func (c childAsker) ask(ctx context.Context, questions []endpointQuestion, roots [][]byte) []string {
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
			ctx, cancel := context.WithTimeout(ctx, endpointTime)
			defer cancel()
			why[i] = q.ask(ctx, client, r, roots)
		})
	}
	group.Wait()
	return why
}

// ask asks one endpoint, and says why there was no answer.
func (q endpointQuestion) ask(ctx context.Context, client *prober.Client, r resolve.Resolver, roots [][]byte) string {
	if q.target == nil {
		return "its URL is none"
	}
	to, through := q.target, ""
	if q.proxy != nil {
		to, through = q.proxy, q.proxy.String()
	}
	addrs, err := r.Addresses(ctx, to.Hostname())
	if err != nil {
		return err.Error()
	}
	question := prober.ThroughQuestion{URL: q.target.String(), Proxy: through, Roots: roots}
	for _, addr := range addrs {
		question.Addrs = append(question.Addrs, netip.AddrPortFrom(addr, egress.Port(to)))
	}
	a, err := client.Ask(ctx, prober.Question{Through: &question})
	if err != nil {
		return err.Error()
	}
	return q.judge(a.Through)
}

// judge says in words why an answer does not count, if it does not.
func (q endpointQuestion) judge(t *prober.Through) string {
	known := cause.Context{Host: q.target.Hostname(), Trusted: "what is trusted for the egress proxy (egressProxy.trustedCA, and what this host trusts)"}
	proxy := "nobody"
	if q.proxy != nil {
		proxy = egress.Redact(q.proxy)
	}
	switch {
	case t.OK():
		return ""
	case q.proxy != nil && (t.Status == proxyAuthRequired || t.Denied == proxyAuthRequired):
		return fmt.Sprintf("the proxy %s wants other credentials (407): correct user and password in its URL, percent-encoded", proxy)
	case t.Denied != 0:
		return fmt.Sprintf("the proxy %s refuses to connect to it (%d): allow it there", proxy, t.Denied)
	case t.Status != 0:
		return fmt.Sprintf("the answer is %d, and not 2xx or 3xx: let its server answer so, or name another URL in egressProxy.readinessEndpoints", t.Status)
	case q.proxy != nil:
		return fmt.Sprintf("through the proxy %s (%v): %s", proxy, t.Tried, t.Why.Text(known))
	default:
		return fmt.Sprintf("directly (%v), since the no-proxy list has it: %s", t.Tried, t.Why.Text(known))
	}
}
