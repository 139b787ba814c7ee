// SPDX-License-Identifier: Apache-2.0

// Package route has the keeper's orders about the way to the ingress become the
// settings of package upstream, for each process that asks the ingress.
package route

import (
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// Builder is the way to the ingress, as the orders have it that have come so far. The
// zero value leads nowhere.
type Builder struct{ settings upstream.Settings }

// Settings are what is in force. What was trusted before stays the same value, and
// with it the TLS sessions, until another order about it comes.
func (w *Builder) Settings() upstream.Settings { return w.settings }

// Configure takes where the ingress is, and how it is asked.
func (w *Builder) Configure(c *protocol.Configure) {
	w.settings = upstream.Settings{
		Ingress:         c.Ingress,
		Port:            c.Port,
		HTTPSPort:       c.HTTPSPort,
		TLS:             c.TLS,
		FollowRedirects: c.FollowRedirects,
		VerifyNames:     c.VerifyNames,
		ConnectTimeout:  c.ConnectTimeout,
		ProxyProtocol:   upstream.ProxyProtocol(c.ProxyProtocol),
		TrustedCAs:      w.settings.TrustedCAs,
		Egress:          w.settings.Egress,
	}
}

// Trust takes which CAs are trusted. It comes before the first configuration, which
// says where the ingress is, and whenever other CAs are to be trusted.
func (w *Builder) Trust(t *protocol.CABundle) {
	w.settings.TrustedCAs = upstream.NewTrustedCAs(t.Roots)
}

// Egress takes what is reached through a proxy: from here on, nothing that is
// printed shows what authorizes the proxy's use.
func (w *Builder) Egress(e *protocol.EgressRoutes) {
	through := make([]upstream.EgressRoute, 0, len(e.Routes))
	for _, t := range e.Routes {
		through = append(through, upstream.EgressRoute{Ingress: t.Ingress, Proxy: upstream.EgressProxy{
			Name:          t.Proxy.Name,
			TLS:           t.Proxy.TLS,
			Addrs:         t.Proxy.Addrs,
			Authorization: upstream.NewSecret(t.Proxy.Authorization),
		}})
	}
	w.settings.Egress = upstream.Egress{Routes: through, ProxyCAs: e.ProxyCAs.Roots, AdditionalCAs: e.AdditionalCAs.Roots}
}
