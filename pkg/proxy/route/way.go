// SPDX-License-Identifier: Apache-2.0

// Package route has the keeper's orders about the way to the ingress become the
// settings of package upstream, for each process that asks the ingress.
package route

import (
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// Way is the way to the ingress, as the orders have it that have come so far. The
// zero value leads nowhere.
type Way struct{ settings upstream.Settings }

// Settings are what is in force. What was trusted before stays the same value, and
// with it the TLS sessions, until another order about it comes.
func (w *Way) Settings() upstream.Settings { return w.settings }

// Configure takes where the ingress is, and how it is asked.
func (w *Way) Configure(c *protocol.Configure) {
	w.settings = upstream.Settings{
		Ingress:         c.Ingress,
		Port:            c.Port,
		HTTPSPort:       c.HTTPSPort,
		Secure:          c.Secure,
		FollowRedirects: c.FollowRedirects,
		VerifyNames:     c.VerifyNames,
		ConnectTimeout:  c.ConnectTimeout,
		ProxyProtocol:   upstream.ProxyProtocol(c.ProxyProtocol),
		Trust:           w.settings.Trust,
		Egress:          w.settings.Egress,
	}
}

// Trust takes which CAs are trusted. It comes before the first configuration, which
// says where the ingress is, and whenever other CAs are to be trusted.
func (w *Way) Trust(t *protocol.Trust) {
	w.settings.Trust = upstream.NewTrust(t.Roots)
}

// Egress takes what is reached through a proxy: from here on, nothing that is
// printed shows what authorizes the proxy's use.
func (w *Way) Egress(e *protocol.Egress) {
	through := make([]upstream.Through, 0, len(e.Through))
	for _, t := range e.Through {
		through = append(through, upstream.Through{Ingress: t.Ingress, Proxy: upstream.EgressProxy{
			Name:          t.Proxy.Name,
			Secure:        t.Proxy.Secure,
			Addrs:         t.Proxy.Addrs,
			Authorization: upstream.NewSecret(t.Proxy.Authorization),
		}})
	}
	w.settings.Egress = upstream.Egress{Through: through, Proxies: e.Proxies.Roots, Beyond: e.Beyond.Roots}
}
