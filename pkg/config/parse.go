// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"net/netip"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
)

// Parse parses the text of a configuration file; file is its name in messages. An
// empty text means the default configuration. The error is of type Problems and
// contains every problem of the keys, or else of their combinations.
func Parse(file string, data []byte) (Config, error) {
	p := parser{reader: reader{file: file, values: make(map[string]*yaml.Node)}, config: Default()}
	if doc := p.document(data); doc != nil {
		p.mapping(doc, topLevel, p.keys()...)
		if len(p.problems) == 0 {
			p.crossCheck()
		}
	}
	if len(p.problems) > 0 {
		return Config{}, p.problems.sorted()
	}
	return p.config, nil
}

// parser is a configuration that is being parsed.
type parser struct {
	reader
	config Config
}

func (p *parser) keys() []key {
	c, r := &p.config, &p.reader
	const modes = `write DefaultDeployment, CustomDeployment, or "" to disable the proxy`
	return []key{
		{"mode", value(r, &c.Mode, modes, "!!str", func(text string) (Mode, bool) {
			return Mode(text), slices.Contains([]Mode{ModeDefault, ModeCustom, ModeDisabled}, Mode(text))
		})},
		{"customDeployment", r.section(key{"internalPort", number(r, &c.InternalPort, minInternalPort, maxPort)})},
		{"vips", r.section(
			key{"management", oneOf(r, &c.VIPs.Management, ManagementDetected, ManagementKeepalived, ManagementBGP)},
			key{"keepalivedConfig", r.path(&c.VIPs.KeepalivedConfig, required)},
			key{"api", r.addresses(&c.VIPs.API)},
			key{"ingress", r.addresses(&c.VIPs.Ingress)},
			key{"testInterval", r.duration(&c.VIPs.TestInterval, minTestInterval, maxTestInterval, optional)},
		)},
		{"upstream", r.section(
			key{"scheme", oneOf(r, &c.Upstream.Scheme, SchemeHTTP, SchemeHTTPS)},
			key{"port", number(r, &c.Upstream.Port, 1, maxPort)},
			key{"httpsPort", number(r, &c.Upstream.HTTPSPort, 1, maxPort)},
			key{"followRedirects", r.boolean(&c.Upstream.FollowRedirects)},
			key{"proxyProtocol", oneOf(r, &c.Upstream.ProxyProtocol, ProxyProtocolOff, ProxyProtocolV1, ProxyProtocolV2)},
			key{"trustedCA", r.path(&c.Upstream.TrustedCA, required)},
			key{"verifyNames", r.certificateNames(&c.Upstream.VerifyNames)},
			key{"connectTimeout", r.duration(&c.Upstream.ConnectTimeout, minTimeout, maxTimeout, required)},
			key{"timeout", r.duration(&c.Upstream.Timeout, minTimeout, maxTimeout, required)},
		)},
		{"egressProxy", r.section(
			key{"file", r.path(&c.EgressProxy.File, required)},
			key{"httpProxy", r.proxyURL(&c.EgressProxy.HTTPProxy)},
			key{"httpsProxy", r.proxyURL(&c.EgressProxy.HTTPSProxy)},
			key{"noProxy", r.noProxy(&c.EgressProxy.NoProxy)},
			key{"trustedCA", r.path(&c.EgressProxy.TrustedCA, required)},
			key{"readinessEndpoints", r.urls(&c.EgressProxy.ReadinessEndpoints)},
			key{"upstream", oneOf(r, &c.EgressProxy.Upstream, EgressNever, EgressAuto)},
		)},
		{"hosts", r.hosts(&c.Hosts)},
		{"limits", r.section(
			key{"maxConnections", number(r, &c.Limits.MaxConnections, minConnections, maxConnections)},
			key{"perSource", number(r, &c.Limits.PerSource, minPerSource, maxConnections)},
			key{"headTimeout", r.duration(&c.Limits.HeadTimeout, minTimeout, maxTimeout, required)},
			key{"headBytes", number(r, &c.Limits.HeadBytes, minHeadBytes, maxHeadBytes)},
		)},
		{"metrics", r.section(key{"listenAddress", r.listenOn(&c.Metrics.ListenAddress)})},
		{"selfTest", r.section(
			key{"interval", r.duration(&c.SelfTest.Interval, minSelfTestInterval, maxSelfTestInterval, optional)},
		)},
		{"microshift", r.section(
			key{"directory", r.path(&c.MicroShift.Directory, optional)},
			key{"manageAdvertiseAddress", r.boolean(&c.MicroShift.ManageAdvertiseAddress)},
		)},
	}
}

// crossCheck checks the rules for several keys, each of which is valid.
func (p *parser) crossCheck() {
	u, m := &p.config.Upstream, p.config.MicroShift
	u.ExplicitPorts = ExplicitPorts{HTTP: p.values["upstream.port"] != nil, HTTPS: p.values["upstream.httpsPort"] != nil}
	p.checkUnion()
	p.checkFamilies()
	p.checkHosts()
	p.checkEgress()
	at := cmp.Or(p.values["upstream.connectTimeout"], p.values["upstream.timeout"])
	if at != nil && u.ConnectTimeout > u.Timeout {
		p.problem(at, "set a connectTimeout that is not longer than timeout",
			"upstream.connectTimeout (%v) is longer than upstream.timeout (%v)", u.ConnectTimeout, u.Timeout)
	}
	if port := p.config.Metrics.ListenAddress.Port(); port != 0 && port == p.config.InternalPort {
		p.problem(p.values["metrics.listenAddress"], "specify another port, such as 9645",
			"metrics.listenAddress uses the proxy's port %d", port)
	}
	if m.ManageAdvertiseAddress && m.Directory == "" {
		p.problem(p.values["microshift.manageAdvertiseAddress"], "set it to false, or specify microshift.directory",
			"microshift.manageAdvertiseAddress is true, and microshift.directory is empty")
	}
}

// checkUnion checks the union rule of the API: customDeployment is required if mode is
// CustomDeployment, and forbidden otherwise.
func (p *parser) checkUnion() {
	mode, custom := p.values["mode"], p.values["customDeployment"]
	present := custom != nil && !isNull(custom)
	switch {
	case p.config.Mode == ModeCustom && !present:
		p.problem(mode, "add customDeployment: {internalPort: 8888}", "mode CustomDeployment requires customDeployment")
	case p.config.Mode == ModeCustom && p.values["customDeployment.internalPort"] == nil:
		p.problem(custom, "add internalPort: 8888", "customDeployment requires internalPort")
	case p.config.Mode != ModeCustom && present:
		p.problem(custom, "delete it, or set mode: CustomDeployment",
			"customDeployment is allowed only with mode CustomDeployment, but mode is %q", p.config.Mode)
	}
}

// checkFamilies requires an ingress VIP of the same family for each API VIP. Explicit
// VIPs replace all VIPs of keepalived.conf, so there is no other source.
func (p *parser) checkFamilies() {
	vips := p.config.VIPs
	for i, a := range vips.API {
		if !slices.ContainsFunc(vips.Ingress, func(b netip.Addr) bool { return b.Is4() == a.Is4() }) {
			p.problem(p.values["vips.api"].Content[i], "add the ingress VIP of that family to vips.ingress",
				"API VIP %v has no %s ingress VIP", a, printable.Family(a))
		}
	}
	if len(vips.API) == 0 && len(vips.Ingress) > 0 {
		p.problem(p.values["vips.ingress"].Content[0],
			"add the API VIPs to vips.api, or delete vips.ingress to take both from keepalived.conf",
			"vips.ingress is set without vips.api")
	}
}
