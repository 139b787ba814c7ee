// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/mailbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/process"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/reconcile"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/trust"
)

// pipeline completes the settings of the proxy: the reconcile loop starts them, the CA watcher
// adds the trusted CAs, the egress watcher adds the routes through an egress proxy, and the proxy
// supervisor sends the result. So a process never serves a configuration without the CAs and routes
// that belong to it, and the reconcile loop waits for neither.
type pipeline struct {
	tracker  *tracker.Tracker
	settings *mailbox.Mailbox[process.Settings] // of the reconcile loop
	paths    *mailbox.Mailbox[string]           // to the CA watcher
	cas      *mailbox.Mailbox[trust.Output]
	inputs   *mailbox.Mailbox[egress.Input] // to the egress watcher
	egress   *mailbox.Mailbox[egress.Output]
	next     func(process.Settings) // the proxy supervisor

	input egress.Input // of the goroutine of the reconcile loop
}

func newPipeline(tracker *tracker.Tracker, next func(process.Settings)) *pipeline {
	return &pipeline{
		tracker: tracker, next: next, settings: mailbox.New[process.Settings](),
		paths: mailbox.New[string](), cas: mailbox.New[trust.Output](),
		inputs: mailbox.New[egress.Input](), egress: mailbox.New[egress.Output](),
	}
}

// put takes settings of the reconcile loop.
func (p *pipeline) put(s process.Settings) {
	p.settings.Put(s)
	p.paths.Put(trustedCAPath(s.Config))
	p.input.Generation, p.input.Config, p.input.Ingress = s.Generation, s.Config, s.Ingress
	p.inputs.Put(p.input)
}

// observe takes what the reconcile loop saw: the configuration, also of a host that does not
// serve, and addresses that are never reached through an egress proxy.
func (p *pipeline) observe(o reconcile.Observation) {
	p.paths.Put(trustedCAPath(o.Config))
	p.input.Observed, p.input.Config, p.input.VIPs, p.input.Subnets = true, o.Config, nil, nil
	for _, v := range o.VIPs {
		p.input.VIPs = append(p.input.VIPs, v.Address)
	}
	for _, a := range o.Addresses {
		p.input.Subnets = append(p.input.Subnets, netip.PrefixFrom(a.IP, a.Bits))
	}
	p.inputs.Put(p.input)
}

// trustedCAPath returns the bundle for TLS to the ingress; empty without TLS.
func trustedCAPath(c config.Config) string {
	if !c.UsesTLS() {
		return ""
	}
	return c.Upstream.TrustedCA
}

// run passes complete settings on until ctx ends.
func (p *pipeline) run(ctx context.Context) error {
	var s process.Settings // the last
	var cas trust.Output
	var routes egress.Output
	for {
		select {
		case <-ctx.Done():
			return nil
		case s = <-p.settings.Values:
		case cas = <-p.cas.Values:
			p.tracker.SetTrust(cas.Report, time.Now())
		case routes = <-p.egress.Values:
			p.tracker.SetEgress(routes.Report, time.Now())
		}
		if all, ok := complete(s, cas, routes); ok {
			p.next(all)
		}
	}
}

// complete adds CAs and routes to the settings that they belong to. Settings without an egress
// proxy do not wait for the egress watcher.
func complete(s process.Settings, cas trust.Output, routes egress.Output) (process.Settings, bool) {
	if s.Generation == 0 || cas.Report.Kind == "" || cas.Path != trustedCAPath(s.Config) {
		return s, false
	}
	s.CAs = cas.CAs
	if s.Config.EgressProxy.Upstream == config.EgressNever {
		return s, true
	}
	s.Egress = routes.Egress
	return s, routes.Ready && routes.Generation == s.Generation
}
