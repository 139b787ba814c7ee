// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"errors"
	"io/fs"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Settings are the egress proxies that apply on this host.
type Settings struct {
	Config     config.Config
	StateDir   string
	EnvFile    string   // environment file with the cluster's egress proxy
	NoProxy    []string // the automatic part of the no-proxy list
	Privileged bool
}

// Check checks whether cert-manager's self check of these names leaves the cluster, and
// the state of the service's egress proxy. reported is the state that the service reports;
// zero if it does not respond.
func (e Settings) Check(names []string, reported report.EgressProxy) result.Result {
	r := e.checkCluster(names)
	own := verdict.Egress(reported)
	// A file that both use is reported once, and the check of the ingress uses the proxy itself.
	own = slices.DeleteFunc(own, func(f findings.Finding) bool {
		return f.ID == findings.EgressUnreachable || slices.ContainsFunc(r.Findings, func(g findings.Finding) bool {
			return g.ID == f.ID && g.Message == f.Message
		})
	})
	if len(own) == 0 {
		return r
	}
	unseen := ""
	if r.Outcome == report.CheckSkipped {
		unseen = r.Text
	}
	return result.Of(append(r.Findings, own...)...).WithNotChecked(unseen)
}

// checkCluster checks the egress proxy that the cluster's pods use too.
func (e Settings) checkCluster(names []string) result.Result {
	settings, err := egress.ReadFile(e.EnvFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return result.Pass("there is no egress proxy (%s)", e.EnvFile)
	case errors.Is(err, fs.ErrPermission) && !e.Privileged:
		return result.Skip("%v", err)
	case err != nil:
		values := findings.Values{"path": e.EnvFile, "error": strings.TrimPrefix(err.Error(), e.EnvFile+": ")}
		return result.Found(findings.ProxyFileInvalid, values)
	case settings.RedactedHTTP() == "":
		return result.Pass("%s names no proxy for http", e.EnvFile)
	}
	if len(names) == 0 {
		return result.Skip("the API's name is unknown (set --name)")
	}
	var matches []findings.Finding
	for _, name := range names {
		// Pods use only the cluster's list, without the entries that this service adds.
		proxy := settings.ProxyFor(&url.URL{Scheme: "http", Host: name, Path: "/.well-known/acme-challenge/"}, nil)
		if proxy != nil {
			values := findings.Values{"path": e.EnvFile, "name": name, "proxy": egress.Redact(proxy)}
			matches = append(matches, findings.New(findings.NoProxyLacksAPI, values))
		}
	}
	return result.PassUnless(matches, "NO_PROXY in %s covers %s", e.EnvFile, strings.Join(names, ", "))
}

// Configured are the configured settings. A missing file means no egress proxy.
func (e Settings) Configured() (egress.ProxySettings, error) {
	c := e.Config.EgressProxy
	if c.Inline() {
		return egress.FromConfiguration(c.HTTPProxy, c.HTTPSProxy, c.NoProxy)
	}
	s, err := egress.ReadFile(c.File)
	if errors.Is(err, fs.ErrNotExist) {
		return egress.ProxySettings{}, nil
	}
	return s, err
}

// Proxied are the ingress addresses that are reached through the configured egress proxy.
func (e Settings) Proxied(all []netip.Addr) (addrs []netip.Addr) {
	configured, err := e.Configured()
	if err != nil {
		return nil
	}
	for _, p := range egress.ProxiedAddresses(e.Config, configured, all, e.NoProxy) {
		addrs = append(addrs, p.Ingress.Addr())
	}
	return addrs
}
