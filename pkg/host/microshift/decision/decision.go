// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// State is the state of MicroShift on this host.
type State struct {
	microshift.Snapshot
	Computed   microshift.Computed
	ComputeErr error // why Computed is incomplete
}

// Plan is the plan of the service on a MicroShift host: the API uses the addresses of the node,
// and the ingress is MicroShift's router.
type Plan struct {
	Reason             report.Reason
	Message            string
	UnreachableMessage string // the message if the ingress accepts no connections
	MessageSuffix      string // the end of every message
	Decision           ownership.Decision
	Serves             bool // the service needs a listener and a table
	Ingress            []netip.Addr

	RouterHTTP, RouterHTTPS uint16 // ports of MicroShift's router; 0: the configured ports
}

// Decide returns the plan. excluded are the addresses of [Excluded]. The message always names
// files that MicroShift did not read yet or would reject.
func Decide(c config.Config, s State, excluded []netip.Addr, addresses []address.Address) Plan {
	p := decide(c, s, excluded, addresses)
	if s.Known && s.Err != nil {
		p.MessageSuffix = fmt.Sprintf(" (%v; MicroShift's last good configuration stays in use)", s.Err)
	} else if err := PendingRestart(s.Newer); err != nil {
		p.MessageSuffix = fmt.Sprintf(" (MicroShift's configuration: %v)", err)
	}
	return p
}

func decide(c config.Config, m State, excluded []netip.Addr, addresses []address.Address) Plan {
	none := func(reason report.Reason, format string, args ...any) Plan {
		return Plan{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case !m.Known:
		return none(report.NoVIPs, "%v", m.Err)
	case m.ComputeErr != nil:
		return none(report.NoVIPs, "MicroShift: %v", m.ComputeErr)
	case m.Computed.Router.Removed:
		return none(report.UpstreamUnreachable, "MicroShift's ingress.status is Removed, "+
			"so no router can answer challenges: set it to Managed, or set vips.api and vips.ingress for your own router")
	}
	nodes, router := m.Computed.NodeIPs, m.Computed.Router
	free := slices.DeleteFunc(slices.Clone(nodes), func(a netip.Addr) bool {
		return router.ListensOn(a, microshift.ChallengePort)
	})
	redirected := address.Exclude(free, excluded)
	absent := slices.DeleteFunc(slices.Clone(nodes), func(a netip.Addr) bool {
		return slices.ContainsFunc(addresses, func(own address.Address) bool { return own.IP == a })
	})
	p := Plan{Ingress: m.Computed.UpstreamAddresses(), RouterHTTP: router.HTTP, RouterHTTPS: router.HTTPS}
	switch {
	case len(free) == 0:
		p.Reason = report.NotRequired
		p.Decision = ownership.Decide(nodes, nodes, nil)
		p.Message = fmt.Sprintf("MicroShift's router serves %s, according to its configuration",
			describePort(nodes, router.HTTP))
	case len(redirected) == 0 && !m.Computed.AdvertiseAddressGiven:
		return none(report.NoVIPs, "%s is the internal address of MicroShift's API server, "+
			"the first address after the service network, which is never redirected: "+
			"correct node.nodeIP or node.nodeIPv6 in MicroShift's configuration", address.Join(free))
	case len(redirected) == 0:
		return none(report.NoVIPs, "%s is the internal address of MicroShift's API server "+
			"(apiServer.advertiseAddress), which is never redirected: "+
			"delete that key, or configure the router to listen there on port 80", address.Join(free))
	case len(address.Exclude(redirected, absent)) == 0:
		return none(report.NoVIPs, "MicroShift's node address %s is not on this host: %s",
			address.Join(absent), absentNodeAddressFix)
	case len(p.Ingress) == 0:
		return none(report.UpstreamUnreachable, "MicroShift's router has no listen address: "+
			"this host has no address of ingress.listenAddress: correct it in MicroShift's configuration")
	default:
		p.Decision = ownership.Decide(redirected, nil, addresses)
		p.Decision.NotRequired = address.Exclude(nodes, free)
		p.Serves = true
		p.Reason, p.Message = Serving(p.Decision, " (MicroShift's node address)")
		at := p.WithRouterPorts(c)
		p.UnreachableMessage = fmt.Sprintf("MicroShift's router accepts no connections on %s: "+
			"oc get pod,service -n openshift-ingress shows whether router-default runs and has that address; "+
			"http01-proxyd check queries it", describePort(p.Ingress, at.Upstream.InitialPort()))
		if len(p.Decision.Standby) > 0 {
			p.Message += ": " + absentNodeAddressFix
		}
	}
	return p
}

// Serving returns reason and message for VIPs that the service serves; kind describes
// them.
func Serving(d ownership.Decision, kind string) (report.Reason, string) {
	if len(d.Held) == 0 {
		return report.Standby, "not on this host: " + address.Join(d.Standby) + kind
	}
	message := "holds " + address.Join(d.Held) + kind
	if len(d.Standby) > 0 {
		message += "; not on this host: " + address.Join(d.Standby)
	}
	return report.Serving, message
}

// maxFilesNamed bounds the files in a message.
const maxFilesNamed = 3

// PendingRestart returns an error that names the files that are newer than the running MicroShift,
// or nil.
func PendingRestart(newer []string) error {
	if len(newer) == 0 {
		return nil
	}
	names := strings.Join(newer[:min(len(newer), maxFilesNamed)], ", ")
	if more := len(newer) - maxFilesNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("%s has changed since MicroShift started: run systemctl restart microshift", names)
}

// absentNodeAddressFix is the remediation for a node address that is not on the host. No other
// host takes over a node address.
const absentNodeAddressFix = "correct node.nodeIP or node.nodeIPv6 in MicroShift's configuration, " +
	"or add that address to a link"

func describePort(addrs []netip.Addr, port uint16) string {
	return fmt.Sprintf("port %d of %s", port, address.Join(addrs))
}

// WithRouterPorts returns the configuration with the ports of MicroShift's router, unless
// the configuration sets ports.
func (p Plan) WithRouterPorts(c config.Config) config.Config {
	if p.RouterHTTP != 0 && !c.Upstream.ExplicitPorts.HTTP {
		c.Upstream.Port = p.RouterHTTP
	}
	if p.RouterHTTPS != 0 && !c.Upstream.ExplicitPorts.HTTPS {
		c.Upstream.HTTPSPort = p.RouterHTTPS
	}
	return c
}
