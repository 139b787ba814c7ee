// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"

	"golang.org/x/net/http/httpproxy"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// ProxySettings are the egress proxies of the cluster. The zero value means none. The
// URLs may contain credentials. They are unexported and pointers, so that fmt prints
// none even where it cannot call methods.
type ProxySettings struct {
	http, https *url.URL
	NoProxy     string // of the administrator, without the automatic entries
	Source      string // a file's path or "configuration"
}

// proxyURLForm describes the URL of a proxy.
const proxyURLForm = "the proxy's URL, such as http://proxy.example.com:3128"

// ConfigurationSource is the source of settings in the configuration.
const ConfigurationSource = "configuration"

// FromConfiguration returns the settings in the configuration.
func FromConfiguration(httpProxy, httpsProxy, noProxy string) (s ProxySettings, err error) {
	s = ProxySettings{NoProxy: noProxy, Source: ConfigurationSource}
	if s.http, err = parseProxyURL(httpProxy); err != nil {
		return ProxySettings{}, fmt.Errorf("egressProxy.httpProxy %w: specify %s", err, proxyURLForm)
	}
	if s.https, err = parseProxyURL(httpsProxy); err != nil {
		return ProxySettings{}, fmt.Errorf("egressProxy.httpsProxy %w: specify %s", err, proxyURLForm)
	}
	return s, nil
}

// parseProxyURL returns nil for an empty text.
func parseProxyURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no proxy is not an error
	}
	return config.ParseProxyURL(text)
}

// IsEmpty reports whether no proxy is set.
func (s ProxySettings) IsEmpty() bool { return s.http == nil && s.https == nil }

// Equal reports whether the proxies and the no-proxy lists are equal. It ignores the source.
func (s ProxySettings) Equal(o ProxySettings) bool {
	return s.NoProxy == o.NoProxy && withCredentials(s.http) == withCredentials(o.http) &&
		withCredentials(s.https) == withCredentials(o.https)
}

// ProxyFor returns the proxy for a URL, or nil. automatic are names and addresses without a
// proxy, in addition to the administrator's.
func (s ProxySettings) ProxyFor(target *url.URL, automatic []string) *url.URL {
	c := httpproxy.Config{
		HTTPProxy: withCredentials(s.http), HTTPSProxy: withCredentials(s.https), NoProxy: s.EffectiveNoProxy(automatic),
	}
	// ProxyFunc fails only for an invalid URL of a proxy, and these are valid.
	proxy, _ := c.ProxyFunc()(target)
	return proxy
}

// withCredentials returns a URL including its credentials.
func withCredentials(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.String()
}

// RedactedHTTP returns the proxy's URL without credentials, empty without a proxy.
func (s ProxySettings) RedactedHTTP() string { return Redact(s.http) }

// RedactedHTTPS is [ProxySettings.RedactedHTTP] for https.
func (s ProxySettings) RedactedHTTPS() string { return Redact(s.https) }

// Redact returns a URL without user and password. Either may be a token, so both are
// removed. Only scheme and host describe a proxy.
func Redact(u *url.URL) string {
	if u == nil {
		return ""
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host}
	if u.User != nil {
		shown.User = url.User("xxxxx")
	}
	return shown.String()
}

// Authorization returns the value of Proxy-Authorization for a proxy (RFC 7617), empty if its
// URL contains no credentials. It decodes percent-encoded credentials.
func Authorization(proxy *url.URL) string {
	if proxy.User == nil {
		return ""
	}
	password, _ := proxy.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password))
}

// Port returns the port of a URL, or the default port of its scheme.
func Port(u *url.URL) uint16 {
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(port)
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}
