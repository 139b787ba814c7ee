// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
)

// Parse parses the text of a configuration file; file is its name in messages. An
// empty text means the default configuration. The error is of type Problems and
// contains every problem of the file.
func Parse(file string, data []byte) (Config, error) {
	p := parser{reader: reader{file: file, values: make(map[string]*yaml.Node)}, config: Default()}
	if doc := p.document(data); doc != nil {
		p.parseTopLevel(doc)
		p.crossCheck()
	}
	if len(p.problems) > 0 {
		return Config{}, p.problems.sorted()
	}
	return p.config, nil
}

// parser is a configuration that is being parsed.
type parser struct {
	reader
	config          Config
	modeValid       bool
	api, ingress    []addrNode
	vipListsInvalid bool // a list of VIPs has problems
}

func (p *parser) parseTopLevel(doc *yaml.Node) {
	c := &p.config
	p.mapping(
		doc, topLevel,
		key{"mode", p.parseMode},
		key{"customDeployment", func(n *yaml.Node) {
			p.mapping(n, "customDeployment",
				key{"internalPort", p.port(&c.InternalPort, "customDeployment.internalPort", minInternalPort)})
		}},
		key{"vips", func(n *yaml.Node) {
			before := len(p.problems)
			p.mapping(
				n, "vips",
				key{"management", oneOf(&p.reader, &c.VIPs.Management, "vips.management",
					ManagementDetected, ManagementKeepalived, ManagementBGP)},
				key{"keepalivedConfig", p.path(&c.VIPs.KeepalivedConfig, "vips.keepalivedConfig")},
				key{"api", p.addresses(&p.api, "vips.api")},
				key{"ingress", p.addresses(&p.ingress, "vips.ingress")},
				key{"testInterval", p.intervalOrNone(&c.VIPs.TestInterval, "vips.testInterval", minTestInterval, maxTestInterval)},
			)
			p.vipListsInvalid = len(p.problems) > before
		}},
		key{"upstream", p.parseUpstream},
		key{"egressProxy", p.parseEgressProxy},
		key{"hosts", p.hosts(&c.Hosts, "hosts")},
		key{"limits", func(n *yaml.Node) {
			p.mapping(
				n, "limits",
				key{"maxConnections", p.number(&c.Limits.MaxConnections, "limits.maxConnections", minConnections, maxConnections)},
				key{"perSource", p.number(&c.Limits.PerSource, "limits.perSource", minPerSource, maxConnections)},
				key{"headTimeout", p.duration(&c.Limits.HeadTimeout, "limits.headTimeout")},
				key{"headBytes", p.number(&c.Limits.HeadBytes, "limits.headBytes", minHeadBytes, maxHeadBytes)},
			)
		}},
		key{"metrics", func(n *yaml.Node) {
			p.mapping(n, "metrics", key{"listenAddress", p.listenOn(&c.Metrics.ListenAddress, "metrics.listenAddress")})
		}},
		key{"selfTest", func(n *yaml.Node) {
			p.mapping(n, "selfTest", key{"interval", p.intervalOrNone(&c.SelfTest.Interval, "selfTest.interval",
				minSelfTestInterval, maxSelfTestInterval)})
		}},
		key{"microshift", p.parseMicroShift},
	)
}

func (p *parser) parseMode(n *yaml.Node) {
	const fix = `write DefaultDeployment, CustomDeployment, or "" to disable the proxy`
	value(&p.reader, &p.config.Mode, "mode", fix, "!!str", func(text string) (Mode, bool) {
		p.modeValid = slices.Contains([]Mode{ModeDefault, ModeCustom, ModeDisabled}, Mode(text))
		return Mode(text), p.modeValid
	})(n)
}

func (p *parser) crossCheck() {
	p.checkUnion()
	p.checkTimeouts()
	p.checkFamilies()
	p.checkMetrics()
	p.checkEgress()
	for _, a := range p.api {
		p.config.VIPs.API = append(p.config.VIPs.API, a.addr)
	}
	for _, a := range p.ingress {
		p.config.VIPs.Ingress = append(p.config.VIPs.Ingress, a.addr)
	}
}

// checkUnion checks the union rule of the API: customDeployment is required if mode is
// CustomDeployment, and forbidden otherwise.
func (p *parser) checkUnion() {
	mode, custom := p.values["mode"], p.values["customDeployment"]
	present := custom != nil && !isNull(custom)
	switch {
	case mode != nil && !p.modeValid:
		// It is not known which of the two is wrong.
	case p.config.Mode == ModeCustom && !present:
		p.problem(mode, "add customDeployment: {internalPort: 8888}", "mode CustomDeployment requires customDeployment")
	case p.config.Mode == ModeCustom && p.values["customDeployment.internalPort"] == nil:
		p.problem(custom, "add internalPort: 8888", "customDeployment requires internalPort")
	case p.config.Mode != ModeCustom && present:
		p.problem(custom, "delete it, or set mode: CustomDeployment",
			"customDeployment is allowed only with mode CustomDeployment, but mode is %q", p.config.Mode)
	}
}

func (p *parser) checkTimeouts() {
	u := p.config.Upstream
	at := cmp.Or(p.values["upstream.connectTimeout"], p.values["upstream.timeout"])
	if at != nil && u.ConnectTimeout > u.Timeout {
		p.problem(at, "set a connectTimeout that is not longer than timeout",
			"upstream.connectTimeout (%v) is longer than upstream.timeout (%v)", u.ConnectTimeout, u.Timeout)
	}
}

// checkMetrics checks that the metrics do not use the port of the proxy.
func (p *parser) checkMetrics() {
	if port := p.config.Metrics.ListenAddress.Port(); port != 0 && port == p.config.InternalPort {
		p.problem(p.values["metrics.listenAddress"], "specify another port, such as 9645",
			"metrics.listenAddress uses the proxy's port %d", port)
	}
}

// checkFamilies requires an ingress VIP of the same family for each API VIP. Explicit
// VIPs replace all VIPs of keepalived.conf, so there is no other source.
func (p *parser) checkFamilies() {
	if p.vipListsInvalid {
		return // the missing VIP may be the entry that has a problem
	}
	for _, a := range p.api {
		if !slices.ContainsFunc(p.ingress, func(b addrNode) bool { return b.addr.Is4() == a.addr.Is4() }) {
			p.problem(a.node, "add the ingress VIP of that family to vips.ingress",
				"API VIP %v has no %s ingress VIP", a.addr, printable.Family(a.addr))
		}
	}
	if len(p.api) == 0 && len(p.ingress) > 0 {
		p.problem(p.ingress[0].node, "add the API VIPs to vips.api, or delete vips.ingress to take both from keepalived.conf",
			"vips.ingress is set without vips.api")
	}
}
