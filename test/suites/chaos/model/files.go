// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Network has the addresses of the lab.
type Network struct {
	API     []netip.Addr // API VIPs, each family in turn
	Ingress []netip.Addr // one of each family
}

// KeepalivedVariants is the number of different complete files of KeepalivedFile.
const KeepalivedVariants = 5

// KeepalivedFile returns a complete keepalived.conf as the machine-config-operator renders
// it: one instance for each VIP, which keeps its number. Variants have another number of API
// VIPs, or one family.
func (n Network) KeepalivedFile(variant int) Text {
	api := map[int][]netip.Addr{
		0: n.API, 1: n.API[:2], 2: n.API[:1], 3: n.API[1:2], 4: n.API[2:],
	}[variant%KeepalivedVariants]
	var b strings.Builder
	for _, a := range api {
		b.WriteString(instance("API", slices.Index(n.API, a), a))
	}
	for i, a := range n.Ingress {
		b.WriteString(instance("INGRESS", i, a))
	}
	return Text{Body: b.String(), Keepalived: Keepalived{Known: true, API: NewSet(api...), Ingress: NewSet(n.Ingress...)}}
}

func instance(role string, i int, vip netip.Addr) string {
	return fmt.Sprintf(
		"vrrp_instance lab_%s_%d {\n    state BACKUP\n    interface br-ex\n    virtual_router_id %d\n    priority 40\n    "+
			"advert_int 1\n    virtual_ipaddress {\n        %s/%d\n    }\n}\n",
		role, i, 10+i, vip, vip.BitLen())
}

// CutKeepalived returns the meaning of the first n bytes of a keepalived.conf, by the rules
// of pkg/host/keepalived: a file that ends inside a block is incomplete and never takes effect. Complete
// blocks take effect.
func CutKeepalived(whole string, n int) Text {
	body := whole[:n]
	t := Text{Body: body}
	end := strings.LastIndex(body, "\n}")
	rest := body
	if end >= 0 {
		rest = body[end+2:]
	}
	if strings.TrimSpace(body) == "" || strings.Contains(rest, "{") {
		t.Rejected = true
		return t
	}
	t.Keepalived.Known = true
	var api, ingress []netip.Addr
	for _, block := range strings.Split(body[:max(end, 0)], "vrrp_instance ")[1:] {
		fields := strings.Fields(block)
		for _, f := range fields {
			p, err := netip.ParsePrefix(f)
			switch {
			case err != nil:
			case strings.Contains(fields[0], "_API_"):
				api = append(api, p.Addr())
			default:
				ingress = append(ingress, p.Addr())
			}
		}
	}
	t.Keepalived.API, t.Keepalived.Ingress = NewSet(api...), NewSet(ingress...)
	t.Settles = len(api) == 0
	return t
}

// The ports of the configurations.
const (
	DefaultPort = 8888
	OtherPort   = 9888
	MetricsPort = 9645
)

// ConfigVariants is the number of different valid configurations of ConfigFile.
const ConfigVariants = 6

// AllProcesses is the variant with which the service has all of its processes.
const AllProcesses = 3

// ConfigFile returns a valid configuration. It is one flow mapping, so that each part of it
// is invalid: the head of a block mapping can be another valid configuration.
func (n Network) ConfigFile(variant int, keepalived, ca, env string) Text {
	c := Config{Known: true, Port: DefaultPort, Keepalived: true}
	mode, vips, more := "", "", ""
	switch variant % ConfigVariants {
	case 0:
	case 1:
		c.Port = OtherPort
		mode = fmt.Sprintf("mode: CustomDeployment, customDeployment: {internalPort: %d}, ", c.Port)
	case 2:
		c.Disabled = true
		mode = `mode: "", `
	case AllProcesses: // the prober process stays while there are self-tests
		c.Metrics = MetricsPort
		more = fmt.Sprintf(`, metrics: {listenAddress: ":%d"}, selfTest: {interval: 10s}`, c.Metrics)
	case 4:
		c.API, c.Ingress = NewSet(n.API[:2]...), NewSet(n.Ingress...)
		vips = fmt.Sprintf(`, api: [%q, %q], ingress: [%q, %q]`, n.API[0], n.API[1], n.Ingress[0], n.Ingress[1])
	case 5: // the IPv4 VIP is an ingress VIP too
		c.API, c.Ingress = NewSet(n.API[0], n.API[1]), NewSet(n.API[0], n.Ingress[1])
		vips = fmt.Sprintf(`, api: [%q, %q], ingress: [%q, %q]`, n.API[0], n.API[1], n.API[0], n.Ingress[1])
	}
	return Text{
		Config: c,
		Body: fmt.Sprintf(
			"{%svips: {keepalivedConfig: %q%s}, upstream: {trustedCA: %q}, egressProxy: {file: %q, trustedCA: "+
				"/nowhere/ca.crt}%s}\n",
			mode, keepalived, vips, ca, env, more),
	}
}

// CutConfig returns the meaning of the first n bytes of a configuration of ConfigFile.
func CutConfig(whole Text, n int) Text {
	switch n {
	case 0:
		return Text{Config: Defaults(), Settles: true}
	case len(whole.Body), len(whole.Body) - 1: // the newline alone
		whole.Body = whole.Body[:n]
		return whole
	}
	return Text{Body: whole.Body[:n], Rejected: true}
}

// Files that change nothing of what the model describes, good or bad: the ingress is reached
// by HTTP, and directly. A bundle without a usable certificate is enough for that.
const (
	bundle   = "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUY2hhb3MgY2hhb3MgY2hhb3MgY2hhb3MwCgYIKoZIzj0E\n-----END CERTIFICATE-----\n"
	proxyEnv = "HTTP_PROXY=http://proxy.example.com:3128\nHTTPS_PROXY=http://proxy.example.com:3128\nNO_PROXY=.example.com,192.0.2.0/24\n"
)
