// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"

	"go.yaml.in/yaml/v4"
)

// Parse reads a configuration file's text; file is its name in messages. An
// empty text is the default configuration. The error is of type Problems and
// holds everything that is wrong.
func Parse(file string, data []byte) (Config, error) {
	p := parser{reader: reader{file: file}, config: Default()}
	if doc := p.document(data); doc != nil {
		p.parseTopLevel(doc)
		p.crossCheck()
	}
	if len(p.problems) > 0 {
		return Config{}, p.problems.sorted()
	}
	return p.config, nil
}

// parser is a configuration in the making, with the places that the rules
// over several keys speak of.
type parser struct {
	reader
	config           Config
	mode             *yaml.Node // nil when absent
	modeValid        bool
	customDeployment *yaml.Node // the value; nil when absent
	internalPort     *yaml.Node
	connectTimeout   *yaml.Node
	proxyProtocol    *yaml.Node
	egressFile       *yaml.Node
	egressInline     *yaml.Node // the first of the keys that stand for the file's
	egressUse        *yaml.Node
	listenAddress    *yaml.Node // of the metrics
	api, ingress     []addrNode
	vipListsInvalid  bool // a list of VIPs had problems of its own
}

func (p *parser) parseTopLevel(doc *yaml.Node) {
	c := &p.config
	p.mapping(
		doc, "the configuration",
		key{"mode", p.parseMode},
		key{"customDeployment", p.parseCustomDeployment},
		key{"vips", func(n *yaml.Node) {
			before := len(p.problems)
			p.mapping(
				n, "vips",
				key{"keepalivedConfig", p.path(&c.VIPs.KeepalivedConfig, "vips.keepalivedConfig")},
				key{"api", p.addresses(&p.api, "vips.api")},
				key{"ingress", p.addresses(&p.ingress, "vips.ingress")},
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
			p.mapping(n, "metrics", key{"listenAddress", func(n *yaml.Node) {
				p.listenAddress = n
				p.listenOn(&c.Metrics.ListenAddress, "metrics.listenAddress")(n)
			}})
		}},
		key{"microshift", p.parseMicroShift},
	)
}

func (p *parser) parseMode(n *yaml.Node) {
	const mend = `write DefaultDeployment, CustomDeployment, or "" to disable the front door`
	p.mode = n
	text, ok := p.scalar(n, "mode", mend, "!!str")
	if !ok {
		return
	}
	switch mode := Mode(text); mode {
	case ModeDefault, ModeCustom, ModeDisabled:
		p.config.Mode, p.modeValid = mode, true
	default:
		p.problem(n, mend, "mode is %s", quoteRedacted(text))
	}
}

func (p *parser) parseCustomDeployment(n *yaml.Node) {
	if isNull(n) {
		return
	}
	p.customDeployment = n
	p.mapping(n, "customDeployment", key{"internalPort", func(n *yaml.Node) {
		p.internalPort = n
		p.port(&p.config.InternalPort, "customDeployment.internalPort", minInternalPort)(n)
	}})
}

// crossCheck holds the rules over several keys.
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

// checkUnion is the API's union rule: customDeployment is required when mode
// is CustomDeployment and forbidden otherwise.
func (p *parser) checkUnion() {
	switch {
	case p.mode != nil && !p.modeValid:
		// Which of the two would be wrong is not known.
	case p.config.Mode == ModeCustom && p.customDeployment == nil:
		p.problem(p.mode, "add customDeployment: {internalPort: 8888}", "mode CustomDeployment needs customDeployment")
	case p.config.Mode == ModeCustom && p.internalPort == nil:
		p.problem(p.customDeployment, "add internalPort: 8888", "customDeployment needs internalPort")
	case p.config.Mode != ModeCustom && p.customDeployment != nil:
		p.problem(p.customDeployment, "delete it, or set mode: CustomDeployment",
			"customDeployment is allowed with mode CustomDeployment only, and mode is %q", p.config.Mode)
	}
}

func (p *parser) checkTimeouts() {
	u := p.config.Upstream
	if p.connectTimeout != nil && u.ConnectTimeout > u.Timeout {
		p.problem(p.connectTimeout, "let one connection attempt take less than the whole",
			"upstream.connectTimeout (%v) is longer than upstream.timeout (%v)", u.ConnectTimeout, u.Timeout)
	}
}

// checkMetrics keeps the metrics off the port that the front door takes.
func (p *parser) checkMetrics() {
	if port := p.config.Metrics.ListenAddress.Port(); port != 0 && port == p.config.InternalPort {
		p.problem(p.listenAddress, "give another port, such as 9645", "metrics.listenAddress has the front door's port %d", port)
	}
}

// checkFamilies wants an ingress VIP of the same family beside each API VIP:
// explicit VIPs replace what keepalived.conf says as a whole, so what is not
// given here is nowhere.
func (p *parser) checkFamilies() {
	if p.vipListsInvalid {
		return // the missing one may be the one that has a problem
	}
	for _, a := range p.api {
		if !hasFamily(p.ingress, a.addr) {
			p.problem(a.node, "add the ingress VIP of that family to vips.ingress",
				"API VIP %v has no %s ingress VIP beside it", a.addr, family(a.addr))
		}
	}
	if len(p.api) == 0 && len(p.ingress) > 0 {
		p.problem(p.ingress[0].node, "add the API VIPs to vips.api, or delete vips.ingress to take both from keepalived.conf",
			"vips.ingress is given without vips.api")
	}
}

func hasFamily(list []addrNode, addr netip.Addr) bool {
	for _, a := range list {
		if a.addr.Is4() == addr.Is4() {
			return true
		}
	}
	return false
}

func family(addr netip.Addr) string {
	if addr.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
