// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// checkEgressProxy finds out whether cert-manager's self check leaves the cluster, and how
// the service is with the egress proxy.
func checkEgressProxy(ctx context.Context, h *host) Result {
	r := h.checkClusterProxy(ctx)
	findings := h.egressFindings(r.Findings)
	if len(findings) == 0 {
		return r
	}
	unseen := ""
	if r.Outcome == Skipped {
		unseen = r.Text
	}
	return findingsResult(append(r.Findings, findings...), "").withNotChecked(unseen)
}

// checkClusterProxy looks at the proxy that the cluster's pods have, too.
func (h *host) checkClusterProxy(ctx context.Context) Result {
	settings, err := egress.ReadFile(h.ProxyEnvFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return okResult("there is no egress proxy (%s)", h.ProxyEnvFile)
	case errors.Is(err, fs.ErrPermission) && !h.privileged:
		return skippedResult("%v", err)
	case err != nil:
		return findingsResult([]findings.Finding{invalidProxyFile(h.ProxyEnvFile, err)}, "")
	case settings.RedactedHTTP() == "":
		return okResult("%s names no proxy for http", h.ProxyEnvFile)
	}
	names := h.apiNames(ctx)
	if len(names) == 0 {
		return skippedResult("the API's name is not known: give it with --name")
	}
	var matches []findings.Finding
	for _, name := range names {
		// Pods have the cluster's list alone, without what this service adds.
		proxy := settings.ProxyFor(&url.URL{Scheme: "http", Host: name, Path: "/.well-known/acme-challenge/"}, nil)
		if proxy != nil {
			matches = append(matches, findings.New(findings.NoProxyLacksAPI, "path", h.ProxyEnvFile, "name", name, "proxy", egress.Redact(proxy)))
		}
	}
	return findingsResult(matches, "NO_PROXY in %s covers %s", h.ProxyEnvFile, strings.Join(names, ", "))
}

func invalidProxyFile(path string, err error) findings.Finding {
	return findings.New(findings.ProxyFileInvalid, "path", path, "error", strings.TrimPrefix(err.Error(), path+": "))
}

// egressFindings are about the proxy that this service is to use, besides what is
// known already.
func (h *host) egressFindings(known []findings.Finding) (matches []findings.Finding) {
	settings, err := h.egressSettings()
	isRefusal := func(f findings.Finding) bool { return f.ID == findings.ProxyFileInvalid }
	switch {
	case errors.Is(err, fs.ErrPermission) && !h.privileged:
		return nil
	case err != nil && slices.ContainsFunc(known, isRefusal) && h.config.EgressProxy.File == h.ProxyEnvFile:
		return nil
	case err != nil:
		return []findings.Finding{invalidProxyFile(h.config.EgressProxy.File, err)}
	}
	f, refused := h.rejectedEgress()
	switch {
	case refused:
		return []findings.Finding{f}
	case settings.IsEmpty():
		return nil
	}
	if f, is := h.egressCAFinding(); is {
		matches = append(matches, f)
	} else if f, is := h.pendingEgress(); is {
		matches = append(matches, f)
	}
	// A cluster that has a proxy and leaves this service its defaults does not use it.
	c := h.config.EgressProxy
	if len(c.ReadinessEndpoints) == 0 && !c.Equal(config.Default().EgressProxy) {
		matches = append(matches, findings.New(findings.EgressNoReadinessEndpoints))
	}
	return matches
}

// rejectedEgress is what the running service refuses of what it is asked to use. It is
// not root, and cannot read all that root can.
func (h *host) rejectedEgress() (f findings.Finding, is bool) {
	said, err := h.report()
	e, c := said.EgressProxy, h.config.EgressProxy
	switch {
	case err != nil:
		return f, false
	case e.InvalidInput == report.EgressInputFile && !c.Inline():
		return invalidProxyFile(c.File, errors.New(e.Message)), true
	case e.InvalidInput == report.EgressInputTrustedCA:
		return h.warnIfUnused(findings.New(findings.EgressCAInvalid, "path", c.TrustedCA, "error", e.Message)), true
	default:
		return f, false
	}
}

// egressSettings are what the service is asked to use; no file is no proxy.
func (h *host) egressSettings() (egress.ProxySettings, error) {
	c := h.config.EgressProxy
	if c.Inline() {
		return egress.FromConfiguration(c.HTTPProxy, c.HTTPSProxy, c.NoProxy)
	}
	s, err := egress.ReadFile(c.File)
	if errors.Is(err, fs.ErrNotExist) {
		return egress.ProxySettings{}, nil
	}
	return s, err
}

// egressCAFinding judges the bundle of the proxy's CAs as the service does.
func (h *host) egressCAFinding() (f findings.Finding, is bool) {
	path := h.config.EgressProxy.TrustedCA
	if egress.IsBlank(path) {
		return f, false // as OpenShift has it without a bundle
	}
	file := trust.NewSource(path, trust.LastGoodCopy{})
	file.Refresh(time.Now(), true)
	err := file.Err()
	if err == nil || (errors.Is(err, fs.ErrPermission) && !h.privileged) {
		return f, false
	}
	return h.warnIfUnused(findings.New(findings.EgressCAInvalid, "path", path, "error", err.Error())), true
}

// pendingEgress is what the service says of a proxy that is not accepted yet.
func (h *host) pendingEgress() (f findings.Finding, is bool) {
	said, err := h.report()
	e := said.EgressProxy
	if err != nil || !e.Pending || e.Message == "" {
		return f, false
	}
	stays := "nothing goes through a proxy until then"
	if e.Accepted.HTTPProxy != "" || e.Accepted.HTTPSProxy != "" {
		stays = "the one before it stays in force until then"
	}
	f = findings.New(findings.EgressNotReady, "proxy", cmp.Or(e.Spec.HTTPProxy, e.Spec.HTTPSProxy), "source", e.Spec.Source, "error", e.Message, "stays", stays)
	return h.warnIfUnused(f), true
}

// warnIfUnused makes a finding a warning where nothing is to go through the proxy.
func (h *host) warnIfUnused(f findings.Finding) findings.Finding {
	if h.config.EgressProxy.Upstream == config.EgressNever {
		f.Level = findings.Warning
	}
	return f
}

// apiNames are the names for which there are challenges.
func (h *host) apiNames(ctx context.Context) []string {
	names, _ := h.observed.names.await(ctx)
	return names
}
