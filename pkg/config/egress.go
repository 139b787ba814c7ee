// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// EgressUse selects the requests that use the egress proxy.
type EgressUse string

// The values of egressProxy.upstream.
const (
	EgressNever EgressUse = "never" // no request
	EgressAuto  EgressUse = "auto"  // requests to an ingress outside the no-proxy set
)

// maxEndpoints bounds the readiness endpoints. A request to each may take 10 s.
const maxEndpoints = 8

// EgressProxy is the cluster-wide egress proxy. Its URLs may contain credentials and
// must not be printed.
type EgressProxy struct {
	// File is the absolute path of the node's environment file. It is used unless HTTPProxy or
	// HTTPSProxy is set.
	File                           string
	HTTPProxy, HTTPSProxy, NoProxy string // replace the values of the file
	// TrustedCA is the absolute path of a PEM bundle for TLS to the proxy and for proxies that
	// intercept TLS.
	TrustedCA          string
	ReadinessEndpoints []string
	Upstream           EgressUse
}

// Inline reports whether the configuration contains the proxy's URL.
func (e EgressProxy) Inline() bool { return e.HTTPProxy != "" || e.HTTPSProxy != "" }

// Equal reports whether both values are the same.
func (e EgressProxy) Equal(other EgressProxy) bool { return reflect.DeepEqual(e, other) }

// ParseProxyURL parses the URL of a proxy as in HTTP_PROXY and HTTPS_PROXY. A URL
// without a scheme means http. The error never contains the URL, which may contain
// credentials.
func ParseProxyURL(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is an invalid URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("has a scheme other than http and https")
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("has a path, a query or a fragment")
	case !isPort(u.Port()):
		return nil, errors.New("has a port outside of 1 to 65535")
	}
	return u, nil
}

func isPort(text string) bool {
	n, err := strconv.Atoi(text)
	return text == "" || err == nil && n >= 1 && n <= maxPort
}

// proxyURL sets the URL of a proxy. An empty string means no proxy. Problems never
// quote the value.
func (r *reader) proxyURL(into *string) parseFunc {
	const fix = "specify the proxy's URL, such as http://proxy.example.com:3128"
	return func(n *yaml.Node, where string) {
		_, err := ParseProxyURL(n.Value)
		switch {
		case n.Kind != yaml.ScalarNode || n.Tag != "!!str":
			r.problem(n, fix, "%s is not a string", where)
		case n.Value != "" && err != nil:
			r.problem(n, fix, "%s %v", where, err)
		default:
			*into = n.Value
		}
	}
}

func (r *reader) noProxy(into *string) parseFunc {
	const fix = "specify names, addresses and networks separated by commas, such as .example.com,192.0.2.0/24"
	return value(r, into, fix, "!!str", func(text string) (string, bool) {
		return text, !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f })
	})
}

func (r *reader) urls(into *[]string) parseFunc {
	const fix = "specify a URL with http or https and without credentials, such as https://www.example.com/healthz"
	return entries(r, into, "a valid URL", "[https://www.example.com/healthz]", fix, func(text string) (string, bool) {
		u, err := url.Parse(text)
		return text, err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && isPort(u.Port()) &&
			u.User == nil
	})
}

func (p *parser) checkEgress() {
	c := &p.config
	inline := cmp.Or(
		p.values["egressProxy.httpProxy"], p.values["egressProxy.httpsProxy"], p.values["egressProxy.noProxy"],
	)
	use := p.values["egressProxy.upstream"]
	if p.values["egressProxy.file"] != nil && c.EgressProxy.Inline() {
		p.problem(inline, "keep one of the two", "egressProxy sets both a file and a proxy URL")
	}
	if !c.EgressProxy.Inline() && c.EgressProxy.NoProxy != "" {
		p.problem(inline, "add httpProxy or httpsProxy", "egressProxy.noProxy is set without a proxy")
	}
	if len(c.EgressProxy.ReadinessEndpoints) > maxEndpoints {
		p.problem(p.values["egressProxy.readinessEndpoints"].Content[maxEndpoints], "delete the others",
			"egressProxy.readinessEndpoints has more than %d entries", maxEndpoints)
	}
	if c.EgressProxy.Upstream != EgressAuto || c.Upstream.Scheme != SchemeHTTP {
		return
	}
	if len(c.Hosts) == 0 {
		p.problem(use, "set hosts to names, such as [api.cluster.example.com], or set upstream.scheme: https",
			"egressProxy.upstream auto with upstream.scheme http requires names in hosts: a proxy finds the ingress by the Host of "+
				"the request, and would fetch any host that a client sends")
	}
	if c.Upstream.ProxyProtocol != ProxyProtocolOff {
		p.problem(cmp.Or(p.values["upstream.proxyProtocol"], use), "set upstream.scheme: https, or proxyProtocol: \"off\"",
			"upstream.proxyProtocol %s cannot be used through an egress proxy with upstream.scheme http",
			c.Upstream.ProxyProtocol)
	}
}
