// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

func TestParseAccepts(t *testing.T) {
	t.Parallel()
	with := func(change func(*config.Config)) config.Config {
		c := config.Default()
		change(&c)
		return c
	}
	for name, tt := range map[string]struct {
		text string
		want config.Config
	}{
		"empty file":    {"", config.Default()},
		"comments only": {"# nothing\n", config.Default()},
		"empty marker":  {"---\n", config.Default()},
		"null object":   {"vips:\n  # api: []\nhosts:\n", config.Default()},
		"default mode":  {"mode: DefaultDeployment\n", config.Default()},
		"disabled":      {`mode: ""`, with(func(c *config.Config) { c.Mode = config.ModeDisabled })},
		"custom": {"mode: CustomDeployment\ncustomDeployment: {internalPort: 9888}", with(func(c *config.Config) {
			c.Mode, c.InternalPort = config.ModeCustom, 9888
		})},
		"everything": {`
mode: CustomDeployment
customDeployment: {internalPort: 1024}
vips:
  keepalivedConfig: /tmp/../etc/k.conf
  api: [192.0.2.5, "2001:db8::5"]
  ingress: [2001:DB8:0::6, 192.0.2.6]
  testInterval: 5s
upstream:
  {scheme: https, port: 8080, httpsPort: 8443, followRedirects: false, proxyProtocol: v2, trustedCA: /run/ca.crt,
   verifyNames: ["*.Apps.cluster.example.com.", router.example], connectTimeout: 500ms, timeout: 4s}
egressProxy:
  {httpProxy: "proxy:3128", httpsProxy: "https://u:p%40ss@[2001:db8::9]:3129/", noProxy: ".example,192.0.2.0/24",
   trustedCA: /run/proxy.crt, readinessEndpoints: [https://www.example.com/x, "http://[2001:db8::7]:8080"], upstream: auto}
hosts: [API.Cluster.Example.com., 192.0.2.5, '2001:DB8:0:0::5']
limits: {maxConnections: 10, perSource: 4, headTimeout: 1s, headBytes: 4096}
metrics: {listenAddress: 192.0.2.11:9645}
selfTest: {interval: 90m}
microshift: {directory: /run/../etc/ms/, manageAdvertiseAddress: true}
`, config.Config{
			Mode: config.ModeCustom, InternalPort: 1024,
			VIPs: config.VIPs{
				KeepalivedConfig: "/etc/k.conf",
				API:              []netip.Addr{netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5")},
				Ingress:          []netip.Addr{netip.MustParseAddr("2001:db8::6"), netip.MustParseAddr("192.0.2.6")},
				TestInterval:     5 * time.Second,
			},
			Upstream: config.Upstream{
				Scheme: config.SchemeHTTPS, Port: 8080, HTTPSPort: 8443, ExplicitPorts: config.ExplicitPorts{
					HTTP:  true,
					HTTPS: true,
				}, ProxyProtocol: config.ProxyProtocolV2, TrustedCA: "/run/ca.crt",
				VerifyNames: []string{"*.apps.cluster.example.com", "router.example"}, ConnectTimeout: 500 * time.Millisecond,
				Timeout: 4 * time.Second,
			},
			EgressProxy: config.EgressProxy{
				File: "/etc/mco/proxy.env", HTTPProxy: "proxy:3128", HTTPSProxy: "https://u:p%40ss@[2001:db8::9]:3129/",
				NoProxy:   ".example,192.0.2.0/24",
				TrustedCA: "/run/proxy.crt", ReadinessEndpoints: []string{"https://www.example.com/x", "http://[2001:db8::7]:8080"},
				Upstream: config.EgressAuto,
			},
			Hosts:      []string{"api.cluster.example.com", "192.0.2.5", "2001:db8::5"},
			Limits:     config.Limits{MaxConnections: 10, PerSource: 4, HeadTimeout: time.Second, HeadBytes: 4096},
			Metrics:    config.Metrics{ListenAddress: netip.MustParseAddrPort("192.0.2.11:9645")},
			SelfTest:   config.SelfTest{Interval: 90 * time.Minute},
			MicroShift: config.MicroShift{Directory: "/etc/ms", ManageAdvertiseAddress: true},
		}},
		"metrics on all addresses": {"metrics:\n  listenAddress: :9645\n", with(func(c *config.Config) {
			c.Metrics.ListenAddress = netip.MustParseAddrPort("[::]:9645")
		})},
		"metrics on one IPv6 address": {`metrics: {listenAddress: "[2001:db8::11]:1024"}`, with(func(c *config.Config) {
			c.Metrics.ListenAddress = netip.MustParseAddrPort("[2001:db8::11]:1024")
		})},
		"metrics on IPv4 alone": {"metrics: {listenAddress: 0.0.0.0:65535}", with(func(c *config.Config) {
			c.Metrics.ListenAddress = netip.MustParseAddrPort("0.0.0.0:65535")
		})},
		"PROXY protocol off, unquoted": {"upstream: {proxyProtocol: off}", config.Default()},
		"another proxy file": {
			"egressProxy: {file: /run/proxy.env}",
			with(func(c *config.Config) { c.EgressProxy.File = "/run/proxy.env" }),
		},
		"no proxy": {`egressProxy: {httpProxy: "", httpsProxy: "", noProxy: ""}`, config.Default()},
		"any host": {"hosts: ['*']", with(func(c *config.Config) { c.AnyHost = true })},
		"through the proxy by name": {"hosts: [a.example]\negressProxy: {upstream: auto}", with(func(c *config.Config) {
			c.Hosts, c.EgressProxy.Upstream = []string{"a.example"}, config.EgressAuto
		})},
		"self-test off":       {"selfTest: {interval: 0s}", with(func(c *config.Config) { c.SelfTest.Interval = 0 })},
		"VIP tests off":       {"vips: {testInterval: 0s}", with(func(c *config.Config) { c.VIPs.TestInterval = 0 })},
		"metrics off":         {`metrics: {listenAddress: ""}`, config.Default()},
		"no limit per source": {"limits: {perSource: 0}", with(func(c *config.Config) { c.Limits.PerSource = 0 })},
		"one address for both": {"vips: {api: [192.0.2.5], ingress: [192.0.2.5]}", with(func(c *config.Config) {
			c.VIPs.API = []netip.Addr{netip.MustParseAddr("192.0.2.5")}
			c.VIPs.Ingress = c.VIPs.API
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := config.Parse("c.yaml", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}),
				cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

const (
	metricsFix = `specify a port from 1024 to 65535, optionally with an address of this host that is not link-local, ` +
		`such as ":9645" or "[2001:db8::11]:9645", or "" to disable it`
	noVIP = " is not a virtual IP: specify an IPv4 or IPv6 address that clients use, without prefix length and zone, " +
		"such as 192.0.2.5 or 2001:db8::5"
)

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const hostFix = `specify a DNS name such as api.cluster.example.com, or an IP address without brackets and zone; no ` +
		`scheme, port, path or wildcard; or only "*" for any name`
	for name, tt := range map[string]struct{ text, want string }{
		"unknown key": {
			"modes: x",
			`c.yaml:1:1: unknown key "modes" in the configuration: did you mean mode? The keys are mode, customDeployment, vips, upstream, egressProxy, hosts, limits, metrics, selfTest, microshift`,
		},
		"self-test too often": {
			"selfTest: {interval: 9s}",
			`c.yaml:1:22: selfTest.interval is "9s": specify a time span with its unit from 10s to 24h, such as 1h, or 0s to disable it`,
		},
		"VIP tests too often": {
			"vips: {testInterval: 999ms}",
			`c.yaml:1:22: vips.testInterval is "999ms": specify a time span with its unit from 1s to 1h, such as 1h, or 0s to disable it`,
		},
		"MicroShift relative": {
			"microshift: {directory: etc}",
			`c.yaml:1:25: microshift.directory is "etc": specify an absolute path, or "" for no path`,
		},
		"MicroShift managed nowhere": {
			`microshift: {directory: "", manageAdvertiseAddress: true}`,
			`c.yaml:1:53: microshift.manageAdvertiseAddress is true, and microshift.directory is empty: set it to false, or specify microshift.directory`,
		},
		"unknown nested key": {
			"vips:\n  apis: []",
			`c.yaml:2:3: unknown key "apis" in vips: did you mean api? The keys are management, keepalivedConfig, api, ingress, testInterval`,
		},
		"key in other case": {
			"Mode: DefaultDeployment",
			`c.yaml:1:1: unknown key "Mode" in the configuration: did you mean mode? The keys are mode, customDeployment, vips, upstream, egressProxy, hosts, limits, metrics, selfTest, microshift`,
		},
		"duplicate key": {
			"hosts: []\nhosts: []",
			`c.yaml:2:1: key "hosts" of the configuration is listed twice, first on line 1: keep one of the two`,
		},
		"not a mapping": {
			"- a",
			`c.yaml:1:1: the configuration is a list, not a mapping: write keys and values, such as mode: …`,
		},
		"list for object": {
			"limits: [1]",
			`c.yaml:1:9: limits is a list, not a mapping: write keys and values, such as maxConnections: …`,
		},
		"scalar for list": {
			"hosts: a.example",
			`c.yaml:1:8: hosts is the string "a.example", not a list: write a list, such as [api.cluster.example.com]`,
		},
		"second document": {
			"mode: DefaultDeployment\n---\nhosts: []",
			`c.yaml:2:1: a second YAML document: keep one document and delete the rest`,
		},
		"no YAML": {
			"a: [1,\nb",
			"c.yaml:1:4: not valid YAML: while parsing a flow sequence: did not find expected ',' or ']': correct the YAML " +
				"syntax there",
		},
		"wrong indentation": {
			"upstream:\n  port: 80\n timeout: 8s",
			"c.yaml:3:2: not valid YAML: while parsing a block mapping: did not find expected key: correct the YAML syntax there",
		},
		"not UTF-8": {"# é\nhosts: [\"\xff\"]", "c.yaml:2:1: not UTF-8: write the file in UTF-8"},
		"alias": {
			"upstream: &a {port: 80}\nlimits: *a",
			"c.yaml:1:11: anchors, aliases and merge keys are not supported: write the value out\nc.yaml:2:9: anchors, " +
				"aliases and merge keys are not supported: write the value out",
		},
		"any name without quotes": {
			"hosts: [*]",
			"c.yaml:1:10: not valid YAML: while scanning an alias: did not find expected alphabetic or numeric character: " +
				"put a text that begins with \"*\" in quotes",
		},
		"a wildcard without quotes": {
			"upstream: {verifyNames: [*.example.com]}",
			"c.yaml:1:26: not valid YAML: unknown anchor: put a text that begins with \"*\" in quotes",
		},
		"merge key": {
			"<<: {mode: x}",
			`c.yaml:1:1: anchors, aliases and merge keys are not supported: write the value out`,
		},
		"mode without value": {
			"mode:",
			`c.yaml:1:6: mode has no value: write DefaultDeployment, CustomDeployment, or "" to disable the proxy, or delete the key`,
		},
		"mode unknown": {
			"mode: default",
			`c.yaml:1:7: mode is "default": write DefaultDeployment, CustomDeployment, or "" to disable the proxy`,
		},
		"mode bool": {
			"mode: false",
			`c.yaml:1:7: mode is the boolean false: write DefaultDeployment, CustomDeployment, or "" to disable the proxy`,
		},
		"custom without": {
			"mode: CustomDeployment",
			`c.yaml:1:7: mode CustomDeployment requires customDeployment: add customDeployment: {internalPort: 8888}`,
		},
		"custom empty": {
			"mode: CustomDeployment\ncustomDeployment: {}",
			`c.yaml:2:19: customDeployment requires internalPort: add internalPort: 8888`,
		},
		"custom forbidden": {
			"customDeployment: {internalPort: 9000}",
			`c.yaml:1:19: customDeployment is allowed only with mode CustomDeployment, but mode is "DefaultDeployment": delete it, or set mode: CustomDeployment`,
		},
		"custom while disabled": {
			"mode: \"\"\ncustomDeployment: {internalPort: 9000}",
			`c.yaml:2:19: customDeployment is allowed only with mode CustomDeployment, but mode is "": delete it, or set mode: CustomDeployment`,
		},
		"port below 1024": {
			"mode: CustomDeployment\ncustomDeployment: {internalPort: 1023}",
			`c.yaml:2:34: customDeployment.internalPort is 1023: specify a whole number from 1024 to 65535`,
		},
		"port too large": {
			"mode: CustomDeployment\ncustomDeployment: {internalPort: 65536}",
			`c.yaml:2:34: customDeployment.internalPort is 65536: specify a whole number from 1024 to 65535`,
		},
		"port as text": {
			`upstream: {port: "80"}`,
			`c.yaml:1:18: upstream.port is the string "80": specify a whole number from 1 to 65535`,
		},
		"port zero": {
			"upstream: {port: 0}",
			`c.yaml:1:18: upstream.port is 0: specify a whole number from 1 to 65535`,
		},
		"port huge": {
			"upstream: {port: 99999999999999999999}",
			`c.yaml:1:18: upstream.port is the number 99999999999999999999: specify a whole number from 1 to 65535`,
		},
		"port fraction": {
			"upstream: {port: 80.5}",
			`c.yaml:1:18: upstream.port is the number 80.5: specify a whole number from 1 to 65535`,
		},
		"scheme unknown": {
			"upstream: {scheme: ftp}",
			`c.yaml:1:20: upstream.scheme is "ftp": write "http" or "https"`,
		},
		"switch as text": {
			`upstream: {followRedirects: "yes"}`,
			`c.yaml:1:29: upstream.followRedirects is the string "yes": write true or false`,
		},
		"PROXY version": {
			"upstream: {proxyProtocol: 2}",
			`c.yaml:1:27: upstream.proxyProtocol is the number 2: write "off", "v1" or "v2"`,
		},
		"PROXY version unknown": {
			"upstream: {proxyProtocol: v3}",
			`c.yaml:1:27: upstream.proxyProtocol is "v3": write "off", "v1" or "v2"`,
		},
		"bundle by relative path": {
			"upstream: {trustedCA: ca.crt}",
			`c.yaml:1:23: upstream.trustedCA is "ca.crt": specify an absolute path`,
		},
		"name with two stars": {
			`upstream: {verifyNames: ["*.*.example"]}`,
			`c.yaml:1:26: "*.*.example" in upstream.verifyNames is not a host name: specify a DNS name such as router.example.com or "*.apps.cluster.example.com", without port or path`,
		},
		"name that is a star": {
			`upstream: {verifyNames: ["*"]}`,
			`c.yaml:1:26: "*" in upstream.verifyNames is not a host name: specify a DNS name such as router.example.com or "*.apps.cluster.example.com", without port or path`,
		},
		"proxy of another kind": {
			"egressProxy: {httpProxy: \"socks5://u:secret@proxy:1080\"}",
			`c.yaml:1:26: egressProxy.httpProxy has a scheme other than http and https: specify the proxy's URL, such as http://proxy.example.com:3128`,
		},
		"proxy without host": {
			"egressProxy: {httpsProxy: \"http://u:secret@:3128\"}",
			`c.yaml:1:27: egressProxy.httpsProxy has no host: specify the proxy's URL, such as http://proxy.example.com:3128`,
		},
		"proxy that is no URL": {
			"egressProxy: {httpsProxy: \"http://u:sec ret%zz@proxy\"}",
			`c.yaml:1:27: egressProxy.httpsProxy is an invalid URL: specify the proxy's URL, such as http://proxy.example.com:3128`,
		},
		"proxy with a port too high": {
			"egressProxy: {httpsProxy: \"http://u:secret@proxy:65536\"}",
			`c.yaml:1:27: egressProxy.httpsProxy has a port outside of 1 to 65535: specify the proxy's URL, such as http://proxy.example.com:3128`,
		},
		"proxy with a path": {
			"egressProxy: {httpProxy: \"proxy:3128/secret\"}",
			`c.yaml:1:26: egressProxy.httpProxy has a path, a query or a fragment: specify the proxy's URL, such as http://proxy.example.com:3128`,
		},
		"proxy as list": {
			"egressProxy: {httpProxy: [a]}",
			`c.yaml:1:26: egressProxy.httpProxy is not a string: specify the proxy's URL, such as http://proxy.example.com:3128`,
		},
		"proxy twice": {
			"egressProxy: {file: /etc/p.env, httpProxy: \"proxy:3128\"}",
			`c.yaml:1:44: egressProxy sets both a file and a proxy URL: keep one of the two`,
		},
		"noProxy alone": {
			"egressProxy: {noProxy: a.example}",
			`c.yaml:1:24: egressProxy.noProxy is set without a proxy: add httpProxy or httpsProxy`,
		},
		"endpoint with credentials": {
			"egressProxy: {readinessEndpoints: [\"http://u:secret@a.example\"]}",
			`c.yaml:1:36: "…" (not shown: it may contain a password) in egressProxy.readinessEndpoints is not a valid URL: specify a URL with http or https and without credentials, such as https://www.example.com/healthz`,
		},
		"proxy one key off": {
			"egressProxy: {upstream: \"http://u:secret@proxy\"}",
			`c.yaml:1:25: egressProxy.upstream is "…" (not shown: it may contain a password): write "never" or "auto"`,
		},
		"endpoint twice": {
			"egressProxy: {readinessEndpoints: [\"http://a.example/?secret\", " +
				"\"http://a.example/?secret\"]}",
			`c.yaml:1:64: "…" (not shown: it may contain a password) is listed twice in egressProxy.readinessEndpoints: keep one`,
		},
		"endpoint that is no URL": {
			"egressProxy: {readinessEndpoints: [a.example]}",
			`c.yaml:1:36: "a.example" in egressProxy.readinessEndpoints is not a valid URL: specify a URL with http or https and without credentials, such as https://www.example.com/healthz`,
		},
		"proxy for any name": {
			"egressProxy: {upstream: auto}",
			`c.yaml:1:25: egressProxy.upstream auto with upstream.scheme http requires names in hosts: a proxy finds the ingress by the Host of the request, and would fetch any host that a client sends: set hosts to names, such as [api.cluster.example.com], or set upstream.scheme: https`,
		},
		"PROXY header through a proxy": {
			"hosts: [a.example]\nupstream: {proxyProtocol: v1}\negressProxy: {upstream: auto}",
			`c.yaml:2:27: upstream.proxyProtocol v1 cannot be used through an egress proxy with upstream.scheme http: set upstream.scheme: https, or proxyProtocol: "off"`,
		},
		"use unknown": {
			"egressProxy: {upstream: always}",
			`c.yaml:1:25: egressProxy.upstream is "always": write "never" or "auto"`,
		},
		"duration bare": {
			"upstream: {timeout: 8}",
			`c.yaml:1:21: upstream.timeout is the number 8: specify a time span with its unit from 10ms to 1m, such as 2s or 500ms`,
		},
		"duration negative": {
			"upstream: {timeout: -1s}",
			`c.yaml:1:21: upstream.timeout is "-1s": specify a time span with its unit from 10ms to 1m, such as 2s or 500ms`,
		},
		"duration too long": {
			"limits: {headTimeout: 61s}",
			`c.yaml:1:23: limits.headTimeout is "61s": specify a time span with its unit from 10ms to 1m, such as 2s or 500ms`,
		},
		"connect over whole": {
			"upstream: {connectTimeout: 9s}",
			`c.yaml:1:28: upstream.connectTimeout (9s) is longer than upstream.timeout (8s): set a connectTimeout that is not longer than timeout`,
		},
		"whole under connect": {
			"upstream: {timeout: 1s}",
			`c.yaml:1:21: upstream.connectTimeout (2s) is longer than upstream.timeout (1s): set a connectTimeout that is not longer than timeout`,
		},
		"relative path": {
			"vips: {keepalivedConfig: keepalived.conf}",
			`c.yaml:1:26: vips.keepalivedConfig is "keepalived.conf": specify an absolute path`,
		},
		"zone": {
			`vips: {api: ["fe80::1%eth0"], ingress: ["2001:db8::6"]}`,
			`c.yaml:1:14: "fe80::1%eth0" in vips.api` + noVIP,
		},
		"mask": {
			"vips: {api: [192.0.2.5/32], ingress: [192.0.2.6]}",
			`c.yaml:1:14: "192.0.2.5/32" in vips.api` + noVIP,
		},
		"no address": {
			"vips: {api: [api.example.com], ingress: [192.0.2.6]}",
			`c.yaml:1:14: "api.example.com" in vips.api` + noVIP,
		},
		"mapped": {
			`vips: {api: ["::ffff:192.0.2.5"], ingress: [192.0.2.6]}`,
			`c.yaml:1:14: "::ffff:192.0.2.5" in vips.api` + noVIP,
		},
		"loopback": {
			"vips: {api: [127.0.0.1], ingress: [192.0.2.6]}",
			`c.yaml:1:14: "127.0.0.1" in vips.api` + noVIP,
		},
		"VIP twice": {
			"vips: {api: [192.0.2.5, 192.0.2.5], ingress: [192.0.2.6]}",
			`c.yaml:1:25: "192.0.2.5" is listed twice in vips.api: keep one`,
		},
		"family without": {
			`vips: {api: [192.0.2.5, "2001:db8::5"], ingress: [192.0.2.6]}`,
			`c.yaml:1:25: API VIP 2001:db8::5 has no IPv6 ingress VIP: add the ingress VIP of that family to vips.ingress`,
		},
		"api alone": {
			"vips:\n  api:\n  - 192.0.2.5",
			`c.yaml:3:5: API VIP 192.0.2.5 has no IPv4 ingress VIP: add the ingress VIP of that family to vips.ingress`,
		},
		"ingress alone": {
			"vips: {ingress: [192.0.2.6]}",
			`c.yaml:1:18: vips.ingress is set without vips.api: add the API VIPs to vips.api, or delete vips.ingress to take both from keepalived.conf`,
		},
		"host with port": {
			`hosts: ["a.example:80"]`,
			`c.yaml:1:9: "a.example:80" in hosts is not a host name: ` + hostFix,
		},
		"host with a scheme": {
			`hosts: ["http://api.example/", "http://api.example:6443"]`,
			`c.yaml:1:9: "http://api.example/" in hosts is not a host name: ` + hostFix + "\nc.yaml:1:32: " +
				`"…" (not shown: it may contain a password) in hosts is not a host name: ` + hostFix,
		},
		"host wildcard": {
			`hosts: ["*.example"]`,
			`c.yaml:1:9: "*.example" in hosts is not a host name: ` + hostFix,
		},
		"host with brackets": {
			`hosts: ["[2001:db8::5]"]`,
			`c.yaml:1:9: "[2001:db8::5]" in hosts is not a host name: ` + hostFix,
		},
		"host with a zone": {
			`hosts: ["fe80::1%eth0"]`,
			`c.yaml:1:9: "fe80::1%eth0" in hosts is not a host name: ` + hostFix,
		},
		"host mapped": {
			`hosts: ["::ffff:192.0.2.5"]`,
			`c.yaml:1:9: "::ffff:192.0.2.5" in hosts is not a host name: ` + hostFix,
		},
		"host address twice": {
			`hosts: ["2001:db8::5", "2001:db8:0::5"]`,
			`c.yaml:1:24: "2001:db8:0::5" is listed twice in hosts: keep one`,
		},
		"host empty label": {
			`hosts: [a..example]`,
			`c.yaml:1:9: "a..example" in hosts is not a host name: ` + hostFix,
		},
		"any host and a name": {
			`hosts: [a.example, "*"]`,
			`c.yaml:1:20: hosts contains names and "*", which means any name: keep only the names, or only "*"`,
		},
		"any host twice": {`hosts: ["*", "*"]`, `c.yaml:1:14: "*" is listed twice in hosts: keep one`},
		"any host through the proxy by name": {
			"hosts: ['*']\negressProxy: {upstream: auto}",
			`c.yaml:2:25: egressProxy.upstream auto with upstream.scheme http requires names in hosts: a proxy finds the ingress by the Host of the request, and would fetch any host that a client sends: set hosts to names, such as [api.cluster.example.com], or set upstream.scheme: https`,
		},
		"host twice": {
			`hosts: [a.example, A.EXAMPLE.]`,
			`c.yaml:1:20: "A.EXAMPLE." is listed twice in hosts: keep one`,
		},
		"zero connections": {
			"limits: {maxConnections: 0}",
			`c.yaml:1:26: limits.maxConnections is 0: specify a whole number from 1 to 1048576`,
		},
		"negative per source": {
			"limits: {perSource: -1}",
			`c.yaml:1:21: limits.perSource is -1: specify a whole number from 0 to 1048576`,
		},
		"per source as text": {
			"limits: {perSource: off}",
			`c.yaml:1:21: limits.perSource is the string "off": specify a whole number from 0 to 1048576`,
		},
		"head too large": {
			"limits: {headBytes: 1000000}",
			`c.yaml:1:21: limits.headBytes is 1000000: specify a whole number from 512 to 65536`,
		},
		"metrics on the proxy's port": {
			`metrics: {listenAddress: ":8888"}`,
			`c.yaml:1:26: metrics.listenAddress uses the proxy's port 8888: specify another port, such as 9645`,
		},
		"metrics on the proxy's own port": {
			"metrics: {listenAddress: 127.0.0.1:9888}\nmode: " +
				"CustomDeployment\ncustomDeployment: {internalPort: 9888}",
			`c.yaml:1:26: metrics.listenAddress uses the proxy's port 9888: specify another port, such as 9645`,
		},
		"metrics on a number": {
			"metrics: {listenAddress: 9645}",
			`c.yaml:1:26: metrics.listenAddress is the number 9645: ` + metricsFix,
		},
		"metrics without a port": {
			"metrics: {listenAddress: 192.0.2.11}",
			`c.yaml:1:26: metrics.listenAddress is "192.0.2.11": ` + metricsFix,
		},
		"metrics on a name": {
			"metrics: {listenAddress: localhost:9645}",
			`c.yaml:1:26: metrics.listenAddress is "localhost:9645": ` + metricsFix,
		},
		"metrics on a low port": {`metrics: {listenAddress: ":80"}`, `c.yaml:1:26: metrics.listenAddress is ":80": ` +
			metricsFix},
		"metrics on too high a port": {
			`metrics: {listenAddress: ":65536"}`,
			`c.yaml:1:26: metrics.listenAddress is ":65536": ` + metricsFix,
		},
		"metrics with a zone": {
			`metrics: {listenAddress: "[fe80::1%eth0]:9645"}`,
			`c.yaml:1:26: metrics.listenAddress is "[fe80::1%eth0]:9645": ` + metricsFix,
		},
		"metrics mapped": {
			`metrics: {listenAddress: "[::ffff:192.0.2.11]:9645"}`,
			`c.yaml:1:26: metrics.listenAddress is "[::ffff:192.0.2.11]:9645": ` + metricsFix,
		},
		"metrics multicast": {
			`metrics: {listenAddress: 224.0.0.1:9645}`,
			`c.yaml:1:26: metrics.listenAddress is "224.0.0.1:9645": ` + metricsFix,
		},
		"all at once": {"mode: x\nfoo: 1\nlimits:\n  headBytes: 1\n  maxConnections: many\n", strings.Join([]string{
			`c.yaml:1:7: mode is "x": write DefaultDeployment, CustomDeployment, or "" to disable the proxy`,
			`c.yaml:2:1: unknown key "foo" in the configuration: use one of mode, customDeployment, vips, upstream, egressProxy, hosts, limits, metrics, selfTest, microshift`,
			`c.yaml:4:14: limits.headBytes is 1: specify a whole number from 512 to 65536`,
			`c.yaml:5:19: limits.maxConnections is the string "many": specify a whole number from 1 to 1048576`,
		}, "\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse("c.yaml", []byte(tt.text))
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestProblemsRedactCredentials: problems with the URL of a proxy under another key, or of
// another type, do not contain its password.
func TestProblemsRedactCredentials(t *testing.T) {
	t.Parallel()
	const url = "http://us3r:S3CR3T@proxy.example:3128"
	for _, text := range []string{
		"egressProxy: {upstream: " + url + "}", "egressProxy: " + url, "egressProxy: [" + url + "]",
		"egressProxy: {file: \"" + url + "\"}",
		"egressProxy: {trustedCA: " + url + "}", "egressProxy: {" + url + ": x}", "egressProxy: {\"" + url + "\": x, \"" +
			url + "\": x}",
		"egressProxy: {readinessEndpoints: " + url + "}", "egressProxy: {readinessEndpoints: [" + url + "]}",
		"egressProxy: {readinessEndpoints: [\"http://a.example/?S3CR3T\", \"http://a.example/?S3CR3T\"]}",
		"egressProxy: {upstream: us3r:S3CR3T@proxy.example:3128}",
		"egressProxy: {upstream: \"http://us3r:S3CR3T\", proxy.example: x}",
		"egressProxy: {upstream: !!int \"" + url + "\"}", "egressProxy: {upstream: !!bool \"" + url + "\"}",
		"egressProxy: {upstream: !x \"" + url + "\"}",
		"egressProxy: {upstream: !" + url + " x}", "egressProxy: {httpProxy: !!int \"" + url + "\"}",
		"egressProxy: {httpProxy: {" + url + ": x}}",
		"egressProxy: {upstream: *" + url + "}", "egressProxy: {upstream: &" + url + " x}", "egressProxy: {httpProxy: \"" +
			url, "egressProxy:\n  " + url + "\n  x: y",
		"egressProxy: {httpProxy: *S3CR3T}", "egressProxy: {httpProxy: \"http://us3r:\\S3CR3T@proxy\"}",
		url, url + ": x", "mode: " + url, "mode: {" + url + ": x}", "hosts: " + url, "hosts: [" + url + "]",
		"hosts: [us3r:S3CR3T@proxy]", "vips: {api: [\"" + url + "/\"]}",
		"upstream: {port: !!int \"" + url + "\"}", "upstream: {followRedirects: !!bool \"" + url + "\"}",
		"upstream: {timeout: " + url + "}",
		"upstream: {trustedCA: " + url + "}", "upstream: {verifyNames: [" + url + "]}", "metrics: {listenAddress: " + url +
			"}",
	} {
		_, err := config.Parse("c.yaml", []byte(text))
		if err == nil {
			t.Errorf("%s: accepted", text)
			continue
		}
		if message := err.Error(); strings.Contains(strings.ToUpper(message), "S3CR3T") || strings.Contains(message, "us3r") {
			t.Errorf("%s: %s", text, message)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	_, err := config.Parse("c.yaml", []byte(strings.Repeat("a: \n", 1000)))
	if err == nil {
		t.Fatal("accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	if last := lines[len(lines)-1]; len(lines) != 51 || last != "and 950 more" {
		t.Errorf("%d lines, the last %q", len(lines), last)
	}
}

// FuzzParse: no input causes a panic, every problem has a position in the file and a fix,
// and an accepted configuration has the properties that other code requires.
func FuzzParse(f *testing.F) {
	f.Add("mode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\nvips: {api: [192.0.2.5], ingress: " +
		"[192.0.2.6]}\nhosts: [a.example]\n")
	f.Add("a: &a [*a]\n")
	f.Add("metrics: {listenAddress: ':9645'}\n")
	f.Add("limits: {headBytes: 0x200}\n--- {}\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("c.yaml", []byte(text))
		if err != nil {
			lines := strings.Count(strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029",
				"\n").Replace(text), "\n") + 2
			for _, p := range err.(config.Problems) { //nolint:errorlint // the documented type
				if p.Line < 1 || p.Line > lines || p.Column < 1 || p.Message == "" || p.Remediation == "" {
					t.Errorf("problem without a position or a fix: %+v", p)
				}
			}
			return
		}
		if c.InternalPort < 1024 || c.Upstream.ConnectTimeout > c.Upstream.Timeout || c.Limits.MaxConnections < 1 ||
			c.Limits.PerSource < 0 ||
			(c.Metrics.ListenAddress.IsValid() && c.Metrics.ListenAddress.Port() < 1024) ||
			c.Metrics.ListenAddress.Port() == c.InternalPort {
			t.Errorf("accepted %+v", c)
		}
		for _, v := range c.VIPs.API {
			if !v.IsGlobalUnicast() || v.Zone() != "" || v.Is4In6() {
				t.Errorf("accepted API VIP %v", v)
			}
		}
	})
}
