// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"

	"golang.org/x/net/http/httpproxy"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// Settings is which proxy leads out of the cluster. The zero value: none. Its URLs
// may hold credentials, so they are out of sight, and behind pointers: even where
// fmt cannot call methods it shows none.
type Settings struct {
	http, https *url.URL
	NoProxy     string // of the admin; the automatic entries are not in here
	Source      string // a file's path or "configuration"
}

// proxyForm is how a proxy's URL is to look.
const proxyForm = "the proxy's URL, such as http://proxy.example.com:3128"

// FromEnvironment takes what the file at path says.
func FromEnvironment(path string, e Environment) (Settings, error) {
	s := Settings{NoProxy: e.NoProxy.Reveal(), Source: path}
	var err error
	if s.http, err = fromVariable(e.HTTPProxy); err != nil {
		return Settings{}, err
	}
	if s.https, err = fromVariable(e.HTTPSProxy); err != nil {
		return Settings{}, err
	}
	return s, nil
}

func fromVariable(v Variable) (*url.URL, error) {
	proxy, err := parse(v.Reveal())
	if err != nil {
		return nil, &LineError{v.line, fmt.Errorf("%s %w: give %s", v.name, err, proxyForm)}
	}
	return proxy, nil
}

// ConfigurationSource is the source of what stands in the configuration.
const ConfigurationSource = "configuration"

// FromConfiguration takes what the configuration says.
func FromConfiguration(httpProxy, httpsProxy, noProxy string) (s Settings, err error) {
	s = Settings{NoProxy: noProxy, Source: ConfigurationSource}
	if s.http, err = parse(httpProxy); err != nil {
		return Settings{}, fmt.Errorf("egressProxy.httpProxy %w: give %s", err, proxyForm)
	}
	if s.https, err = parse(httpsProxy); err != nil {
		return Settings{}, fmt.Errorf("egressProxy.httpsProxy %w: give %s", err, proxyForm)
	}
	return s, nil
}

// parse takes an empty text for no proxy.
func parse(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no proxy is not an error
	}
	return config.ParseProxyURL(text)
}

// None reports whether no proxy is set.
func (s Settings) None() bool { return s.http == nil && s.https == nil }

// Equal reports whether both mean the same; the source does not matter.
func (s Settings) Equal(o Settings) bool {
	return s.NoProxy == o.NoProxy && reveal(s.http) == reveal(o.http) && reveal(s.https) == reveal(o.https)
}

// Proxy returns through which proxy a URL is asked for, or nil. automatic are the
// names and addresses that never are, beside those of the admin.
func (s Settings) Proxy(target *url.URL, automatic []string) *url.URL {
	c := httpproxy.Config{HTTPProxy: reveal(s.http), HTTPSProxy: reveal(s.https), NoProxy: s.NoProxyWith(automatic)}
	// It fails for a proxy's URL that cannot be parsed alone, and these were.
	proxy, _ := c.ProxyFunc()(target)
	return proxy
}

// reveal is a URL with its credentials.
func reveal(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.String()
}

// RedactedHTTP and RedactedHTTPS are the proxies' URLs for people, without
// credentials; empty without a proxy.
func (s Settings) RedactedHTTP() string { return Redact(s.http) }

// RedactedHTTPS is [Settings.RedactedHTTP] for https.
func (s Settings) RedactedHTTPS() string { return Redact(s.https) }

// Redact is a URL without user and password: who has one of them has half of it,
// and a token may be in either. Only scheme and host are a proxy's.
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

// redacted is what may be shown.
type redacted struct {
	HTTPProxy  string `json:"httpProxy"`
	HTTPSProxy string `json:"httpsProxy"`
	NoProxy    string `json:"noProxy"`
	Source     string `json:"source"`
}

func (s Settings) redacted() redacted {
	return redacted{s.RedactedHTTP(), s.RedactedHTTPS(), s.NoProxy, s.Source}
}

// String shows no credentials.
func (s Settings) String() string {
	r := s.redacted()
	return fmt.Sprintf("httpProxy %s, httpsProxy %s, noProxy %q (%s)",
		cmp.Or(r.HTTPProxy, "none"), cmp.Or(r.HTTPSProxy, "none"), r.NoProxy, r.Source)
}

// GoString implements [fmt.GoStringer].
func (s Settings) GoString() string { return "egress.Settings{" + s.String() + "}" }

// Format implements [fmt.Formatter] for all verbs.
func (s Settings) Format(state fmt.State, verb rune) {
	switch {
	case verb == 'q':
		fmt.Fprintf(state, "%q", s.String())
	case state.Flag('#'):
		_, _ = state.Write([]byte(s.GoString()))
	default:
		_, _ = state.Write([]byte(s.String()))
	}
}

// MarshalJSON implements [json.Marshaler].
func (s Settings) MarshalJSON() ([]byte, error) { return json.Marshal(s.redacted()) }

// LogValue implements [slog.LogValuer].
func (s Settings) LogValue() slog.Value { return slog.StringValue(s.String()) }
