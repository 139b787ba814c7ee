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

// checkEgressProxy checks whether cert-manager's self check leaves the cluster, and the
// state of the service's egress proxy.
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

// checkClusterProxy checks the egress proxy that the cluster's pods use too.
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
		return skippedResult("the API's name is unknown (set --name)")
	}
	var matches []findings.Finding
	for _, name := range names {
		// Pods use only the cluster's list, without the entries that this service adds.
		proxy := settings.ProxyFor(&url.URL{Scheme: "http", Host: name, Path: "/.well-known/acme-challenge/"}, nil)
		if proxy != nil {
			matches = append(matches, findings.New(findings.NoProxyLacksAPI, findings.Values{"path": h.ProxyEnvFile, "name": name, "proxy": egress.Redact(proxy)}))
		}
	}
	return findingsResult(matches, "NO_PROXY in %s covers %s", h.ProxyEnvFile, strings.Join(names, ", "))
}

func invalidProxyFile(path string, err error) findings.Finding {
	return findings.New(findings.ProxyFileInvalid, findings.Values{"path": path, "error": strings.TrimPrefix(err.Error(), path+": ")})
}

// egressFindings are about the egress proxy of this service. known are the findings so
// far.
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
	if f, ok := h.egressCAFinding(); ok {
		matches = append(matches, f)
	} else if f, ok := h.pendingEgress(); ok {
		matches = append(matches, f)
	}
	// A cluster with an egress proxy and the default configuration does not use it
	// here.
	c := h.config.EgressProxy
	if len(c.ReadinessEndpoints) == 0 && !c.Equal(config.Default().EgressProxy) {
		matches = append(matches, findings.New(findings.EgressNoReadinessEndpoints, nil))
	}
	return matches
}

// rejectedEgress is the finding about settings that the running service rejects. The
// service is not root and cannot read all files that root can.
func (h *host) rejectedEgress() (f findings.Finding, ok bool) {
	reported, err := h.report()
	e, c := reported.EgressProxy, h.config.EgressProxy
	switch {
	case err != nil:
		return f, false
	case e.InvalidInput == report.EgressInputFile && !c.Inline():
		return invalidProxyFile(c.File, errors.New(e.Message)), true
	case e.InvalidInput == report.EgressInputTrustedCA:
		return h.warnIfUnused(findings.New(findings.EgressCAInvalid, findings.Values{"path": c.TrustedCA, "error": e.Message})), true
	default:
		return f, false
	}
}

// egressSettings are the configured settings. A missing file means no egress proxy.
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

// egressCAFinding evaluates the CA bundle of the egress proxy like the service does.
func (h *host) egressCAFinding() (f findings.Finding, ok bool) {
	path := h.config.EgressProxy.TrustedCA
	if egress.IsBlank(path) {
		return f, false // as on OpenShift without a bundle
	}
	file := trust.NewSource(path, trust.LastGoodCopy{})
	file.Refresh(time.Now(), true)
	err := file.Err()
	if err == nil || (errors.Is(err, fs.ErrPermission) && !h.privileged) {
		return f, false
	}
	return h.warnIfUnused(findings.New(findings.EgressCAInvalid, findings.Values{"path": path, "error": err.Error()})), true
}

// pendingEgress is the finding about an egress proxy that the service has not accepted
// yet.
func (h *host) pendingEgress() (f findings.Finding, ok bool) {
	reported, err := h.report()
	e := reported.EgressProxy
	if err != nil || !e.Pending || e.Message == "" {
		return f, false
	}
	stays := "Until then, no egress proxy is used"
	if e.Accepted.HTTPProxy != "" || e.Accepted.HTTPSProxy != "" {
		stays = "Until then, the previous one stays in use"
	}
	f = findings.New(findings.EgressNotReady, findings.Values{"proxy": cmp.Or(e.Spec.HTTPProxy, e.Spec.HTTPSProxy), "source": e.Spec.Source, "error": e.Message, "current": stays})
	return h.warnIfUnused(f), true
}

// warnIfUnused lowers a finding to a warning if nothing uses the egress proxy.
func (h *host) warnIfUnused(f findings.Finding) findings.Finding {
	if h.config.EgressProxy.Upstream == config.EgressNever {
		f.Level = findings.Warning
	}
	return f
}

// apiNames are the names of challenges.
func (h *host) apiNames(ctx context.Context) []string {
	names, _ := h.observed.names.await(ctx)
	return names
}
