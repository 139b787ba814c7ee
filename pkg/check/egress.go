// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"github.com/http01-proxyd/http01-proxyd/pkg/catalogue"
	"github.com/http01-proxyd/http01-proxyd/pkg/internal/textfile"
)

// maxProxyFile is far above any list of names.
const maxProxyFile = 1 << 20

// checkProxy finds out whether cert-manager's self check leaves the cluster.
func checkProxy(ctx context.Context, h *host) Result {
	text, err := textfile.Read(h.ProxyEnv, maxProxyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fine("there is no egress proxy (%s)", h.ProxyEnv)
	case errors.Is(err, fs.ErrPermission) && !h.root:
		return skipped("%v", err)
	case err != nil:
		return found([]catalogue.Finding{catalogue.Find(catalogue.ProxyFileRefused, "path", h.ProxyEnv, "error", err.Error())}, "")
	}
	c := proxyOf(string(text))
	if c.HTTPProxy == "" {
		return fine("%s names no proxy for http", h.ProxyEnv)
	}
	names := h.apiNames(ctx)
	if len(names) == 0 {
		return skipped("the API's name is not known: give it with --name")
	}
	var findings []catalogue.Finding
	for _, name := range names {
		proxy, err := c.ProxyFunc()(&url.URL{Scheme: "http", Host: name, Path: "/.well-known/acme-challenge/"})
		switch {
		case err != nil:
			findings = append(findings, catalogue.Find(catalogue.ProxyFileRefused, "path", h.ProxyEnv, "error", err.Error()))
		case proxy != nil:
			findings = append(findings, catalogue.Find(catalogue.ProxyTakesAPI, "path", h.ProxyEnv, "name", name, "proxy", proxy.Redacted()))
		}
	}
	return found(findings, "NO_PROXY in %s covers %s", h.ProxyEnv, strings.Join(names, ", "))
}

// proxyOf reads a file of variables as systemd does (systemd.exec(5),
// EnvironmentFile=): the last assignment counts, and quotes around a value are not
// part of it.
func proxyOf(text string) *httpproxy.Config {
	c := &httpproxy.Config{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, value, is := strings.Cut(line, "=")
		if !is || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		value = strings.TrimSpace(value)
		for _, quote := range []string{`"`, "'"} {
			if len(value) > 1 && strings.HasPrefix(value, quote) && strings.HasSuffix(value, quote) {
				value = value[1 : len(value)-1]
			}
		}
		switch strings.ToUpper(strings.TrimSpace(name)) {
		case "HTTP_PROXY":
			c.HTTPProxy = value
		case "HTTPS_PROXY":
			c.HTTPSProxy = value
		case "NO_PROXY":
			c.NoProxy = value
		}
	}
	return c
}

// apiNames are the names for which there are challenges.
func (h *host) apiNames(ctx context.Context) []string {
	names, _ := h.seen.names.wait(ctx)
	return names
}
