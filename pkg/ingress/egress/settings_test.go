// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
)

// read reads a file with this text.
func read(t *testing.T, text string) (egress.ProxySettings, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "proxy.env")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return egress.ReadFile(path)
}

func settings(t *testing.T, text string) egress.ProxySettings {
	t.Helper()
	s, err := read(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const secret = "s3cret%40word"

// TestSettingsAreHidden: no way of printing shows credentials.
func TestSettingsAreHidden(t *testing.T) {
	t.Parallel()
	s := settings(t, "HTTP_PROXY=http://us3r:"+secret+
		"@p.lab.test:3128\nHTTPS_PROXY=https://t0ken@p.lab.test:3129\nNO_PROXY=a\n")
	type outer struct {
		Shown  egress.ProxySettings
		hidden egress.ProxySettings
	}
	var texts []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%q", "%s", "%x", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, s), fmt.Sprintf(verb, &s), fmt.Sprintf(verb, outer{s, s}),
			fmt.Sprintf(verb, []any{s}))
	}
	texts = append(texts, fmt.Sprint(s), fmt.Errorf("wrong: %v", s).Error())
	var log strings.Builder
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("text", slog.Any("settings", s), slog.Any("pointer", &s), slog.Any("outer", outer{s, s}))
	}
	texts = append(texts, log.String())
	for _, v := range []any{s, &s, outer{s, s}, map[string]any{"s": s}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(b))
	}
	for _, text := range texts {
		for _, hidden := range []string{"us3r", "s3cret", "t0ken", "7573337", "s3cret@word"} {
			if strings.Contains(text, hidden) {
				t.Errorf("it shows %s: %s", hidden, text)
			}
		}
	}
}

// TestFileForms: quotes, comments, CRLF and names in lower case.
func TestFileForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "  ",
		"HTTP_PROXY=http://p:1\nHTTPS_PROXY=http://q:2\nNO_PROXY=a,b\n":                                "http://p:1 http://q:2 a,b",
		"# one\r\n; two\r\nHTTP_PROXY=\"http://p:1\"\r\n NO_PROXY = 'a' \r\nOTHER='x\\\r\nNOTHING\r\n": "http://p:1  a",
		"http_proxy=http://p:1\nHTTPS_PROXY=\nhttps_proxy=q:2\n":                                       "http://p:1 http://q:2 ",
		"http_proxy=http://p:1\nHTTP_PROXY=http://q:2\nHTTP_PROXY=http://r:3":                          "http://r:3  ",
	} {
		s := settings(t, text)
		if got := fmt.Sprint(s.RedactedHTTP(), " ", s.RedactedHTTPS(), " ", s.NoProxy); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestFileRefuses(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"socks5://us3r:s3cret@p:1080", "ftp://us3r:s3cret@p", "http://us3r:s3cret@", "http://us3r:s3%zz@p:1",
		"http://us3r:s3cret@p:port",
		"http://us3r:s3cret@p:3128\x7f", "us3r:s3cret@p:99999", "http://us3r:s3 cret@[::1",
		"\"http://us3r:s3cret@p", "'http://us3r:s3cret@p\"", "http://us3r:s3cret@p\\", "\"", "http://us3r:s3cret@p\x00",
	} {
		_, err := read(t, "# one\nHTTPS_PROXY="+value+"\n")
		if err == nil {
			t.Errorf("%q is taken", value)
			continue
		}
		_, message, _ := strings.Cut(err.Error(), "proxy.env: ")
		if !strings.HasPrefix(message, "line 2: HTTPS_PROXY") || strings.Contains(message, "s3") ||
			strings.Contains(message, "us3r") {
			t.Errorf("%q: %v", value, err)
		}
	}
	if _, err := read(t, "HTTP_PROXY=http://p\nHTTPS_PR"); err == nil || !strings.Contains(err.Error(), ": line 2: ") {
		t.Errorf("half a line: %v", err)
	}
	_, err := egress.FromConfiguration("", "socks5://us3r:s3cret@p:1080", "")
	if err == nil || !strings.Contains(err.Error(), "egressProxy.httpsProxy") || strings.Contains(err.Error(), "s3") {
		t.Errorf("of the configuration: %v", err)
	}
}

func TestCredentialsAreDecoded(t *testing.T) {
	t.Parallel()
	s := settings(t, "HTTP_PROXY=http://user:p%40ss%3Aw%25rd@p:3128\n")
	proxy := s.ProxyFor(&url.URL{Scheme: "http", Host: "elsewhere.test"}, nil)
	if password, _ := proxy.User.Password(); proxy.User.Username() != "user" || password != "p@ss:w%rd" {
		t.Errorf("got %q %q", proxy.User.Username(), password)
	}
	if got, want := egress.Authorization(proxy), "Basic dXNlcjpwQHNzOnclcmQ="; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := egress.Authorization(&url.URL{Scheme: "http", Host: "p"}); got != "" {
		t.Errorf("without credentials: %q", got)
	}
}

// automatic is the automatic part of a host.
func automatic() []string {
	var vips []netip.Addr
	for _, text := range []string{"192.0.2.5", "fd00::5"} {
		vips = append(vips, netip.MustParseAddr(text))
	}
	var subnets []netip.Prefix
	for _, text := range []string{
		"192.0.2.11/24", "192.0.2.5/32", "127.0.0.1/8", "fe80::1/64", "fd00::11/64",
		"10.0.0.1/0",
	} {
		subnets = append(subnets, netip.MustParsePrefix(text))
	}
	return egress.AutomaticNoProxy(config.VIPs{}, vips, nil, subnets, "cluster.test")
}

func TestAutomaticNoProxy(t *testing.T) {
	t.Parallel()
	want := []string{
		"localhost", "127.0.0.0/8", "::1", ".svc", ".cluster.local", "api-int.cluster.test", "192.0.2.0/24",
		"192.0.2.5", "fd00::/64", "fd00::5",
	}
	if diff := cmp.Diff(want, automatic()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s := settings(t, "HTTP_PROXY=http://p\nNO_PROXY= .svc , a.test,,b.test:80\n")
	if got, want := s.EffectiveNoProxy([]string{"localhost", ".svc"}), "localhost,.svc,a.test,b.test:80"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestIngressOfConfiguration: an ingress in the configuration can be anywhere, unless kube-vip
// announces it by BGP.
func TestIngressOfConfiguration(t *testing.T) {
	t.Parallel()
	api, ingress := []netip.Addr{netip.MustParseAddr("192.0.2.5")}, []netip.Addr{netip.MustParseAddr("198.51.100.6")}
	for name, tt := range map[string]struct {
		vips config.VIPs
		want bool
	}{
		"keepalived": {config.VIPs{}, true},
		"explicit":   {config.VIPs{API: api, Ingress: ingress}, false},
		"BGP":        {config.VIPs{Management: config.ManagementBGP, API: api, Ingress: ingress}, true},
	} {
		got := egress.AutomaticNoProxy(tt.vips, api, ingress, nil, "")
		if !slices.Contains(got, "192.0.2.5") || slices.Contains(got, "198.51.100.6") != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestProxyOfURL(t *testing.T) {
	t.Parallel()
	s := settings(t,
		"HTTP_PROXY=http://p:3128\nHTTPS_PROXY=https://q:3129\nNO_PROXY=.inside.test,203.0.113.0/25,203.0.113.200\n")
	for target, want := range map[string]string{
		"http://elsewhere.test/":        "http://p:3128",
		"https://elsewhere.test/":       "https://q:3129",
		"https://a.inside.test/":        "",
		"https://inside.test/":          "https://q:3129", // a leading dot takes what is below alone
		"http://api.cluster.test/":      "http://p:3128",  // never left out by itself
		"https://api-int.cluster.test/": "",
		"http://console.ns.svc/":        "",
		"http://a.cluster.local/":       "",
		"http://localhost:8080/":        "",
		"http://127.1.2.3/":             "",
		"http://[::1]/":                 "",
		"http://192.0.2.5:80":           "",
		"http://[fd00::5]:80":           "",
		"http://[fd00::77]:80":          "", // the host's own subnet
		"https://203.0.113.7:443":       "",
		"https://203.0.113.200:443":     "",
		"https://203.0.113.201:443":     "https://q:3129",
		"http://[2001:db8:7::1]:80":     "http://p:3128",
		"http://198.51.100.1:8080":      "http://p:3128",
		"http://LOCALHOST/":             "",
		"https://API-INT.CLUSTER.TEST/": "",
	} {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if proxy := s.ProxyFor(u, automatic()); proxy != nil {
			got = proxy.String()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
	if s.ProxyFor(&url.URL{Scheme: "http", Host: "elsewhere.test"}, []string{"*"}) != nil {
		t.Error("* does not leave all out")
	}
}

func TestEqualSettings(t *testing.T) {
	t.Parallel()
	one := settings(t, "HTTP_PROXY=http://u:p@p:3128\nNO_PROXY=a\n")
	same, err := egress.FromConfiguration("http://u:p@p:3128", "", "a")
	if err != nil || !one.Equal(same) || one.IsEmpty() {
		t.Errorf("%v and %v, %v", one, same, err)
	}
	for _, text := range []string{
		"HTTP_PROXY=http://u:other@p:3128\nNO_PROXY=a\n", "HTTP_PROXY=http://u:p@p:3128\n",
		"HTTPS_PROXY=http://u:p@p:3128\nNO_PROXY=a\n", "",
	} {
		if other := settings(t, text); one.Equal(other) {
			t.Errorf("%v is equal to %v", one, other)
		}
	}
	if !settings(t, "NO_PROXY=a\n").IsEmpty() {
		t.Error("a list alone is a proxy")
	}
}
