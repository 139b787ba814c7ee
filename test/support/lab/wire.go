// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Names of the unique nodes; control-plane nodes and pods are numbered.
const (
	nameGateway  = "gateway"
	nameInternet = "internet"
	nameWorker   = "worker"
	nameEgress   = "egress"
	nameArbiter  = "arbiter"
)

func controlPlaneName(i int) string { return fmt.Sprintf("master%d", i) }

func podName(i int) string { return fmt.Sprintf("pod%d", i) }

// parts selects the optional nodes of a lab.
type parts struct {
	controlPlaneNodes int // number of control-plane nodes of the lab
	egress            bool
	arbiter           bool
	compact           bool // no worker
	link              Link // of the control-plane nodes

	certificateLifetime time.Duration // 0: the CA's default
}

// allParts returns the parts of the largest lab.
func allParts() parts {
	return parts{controlPlaneNodes: ControlPlaneNodes, egress: true, arbiter: true}
}

// nodeNames returns the names of all nodes of a lab.
func (p parts) nodeNames() []string {
	names := []string{nameGateway, nameInternet}
	if !p.compact {
		names = append(names, nameWorker)
	}
	for i := range p.controlPlaneNodes {
		names = append(names, controlPlaneName(i), podName(i))
	}
	if p.arbiter {
		names = append(names, nameArbiter)
	}
	if p.egress {
		names = append(names, nameEgress)
	}
	return names
}

// cable is a veth pair between two nodes.
type cable struct {
	node, link         string
	peerNode, peerLink string
}

// cables returns all cables. The gateway is the switch of the machine network and the router to
// the internet. There is a network for the pods of each control-plane node. Only the egress
// proxy and the worker are on the outside network; other nodes cannot reach it.
func cables(p parts) []cable {
	out := []cable{
		{nameInternet, "eth0", nameGateway, "internet"},
	}
	if !p.compact {
		out = append(out, cable{nameWorker, uplink, nameGateway, nameWorker})
	}
	if p.arbiter {
		out = append(out, cable{nameArbiter, uplink, nameGateway, nameArbiter})
	}
	for i := range p.controlPlaneNodes {
		out = append(out,
			cable{controlPlaneName(i), p.link.port(), nameGateway, controlPlaneName(i)},
			cable{podName(i), "eth0", controlPlaneName(i), "pods"})
		if p.twoPorts() {
			out = append(out, cable{controlPlaneName(i), secondPort, nameGateway, controlPlaneName(i) + "b"})
		}
	}
	if p.egress {
		out = append(out,
			cable{nameEgress, uplink, nameGateway, nameEgress},
			cable{nameEgress, outsideLink, nameWorker, outsideLink})
	}
	return out
}

// onMachine reports whether a cable connects a node to the machine network.
func (c cable) onMachine() bool {
	return c.peerNode == nameGateway && (c.link == uplink || c.link == port || c.link == secondPort)
}

// switchPort returns the gateway's link for a cable of the machine network.
func (p parts) switchPort(c cable) string {
	if p.tagged() && c.link == port {
		return taggedName(c.peerLink)
	}
	return c.peerLink
}

// address holds the addresses of a node's link and its gateways, if any.
type address struct {
	node, link string
	own        Pair
	gateway    Pair
}

func addresses(t Topology, p parts) []address {
	out := []address{
		{nameGateway, machineBridge, t.gateway, Pair{}},
		{nameGateway, "internet", t.internetGateway, Pair{}},
		{nameInternet, "eth0", t.internet, t.internetGateway},
	}
	if !p.compact {
		out = append(out, address{nameWorker, uplink, t.worker, t.gateway})
	}
	if p.arbiter {
		out = append(out, address{nameArbiter, uplink, t.arbiter, t.gateway})
	}
	if p.egress {
		out = append(out,
			address{nameEgress, uplink, t.egress, t.gateway},
			address{nameEgress, outsideLink, t.egressOutside, Pair{}},
			address{nameWorker, outsideLink, t.Outside, Pair{}})
	}
	for i := range p.controlPlaneNodes {
		out = append(out,
			address{controlPlaneName(i), p.link.name(), t.controlPlane[i], t.gateway},
			address{controlPlaneName(i), "pods", t.podGateways[i], Pair{}},
			address{podName(i), "eth0", t.pods[i], t.podGateways[i]})
	}
	return out
}

// machineBridge is the switch of the machine network.
const machineBridge = "machine"

// outsideLink is the interface of a node on the outside network.
const outsideLink = "outside"

// script holds the `ip -batch` commands of each node.
type script map[string][]string

func (s script) add(node, format string, args ...any) {
	s[node] = append(s[node], fmt.Sprintf(format, args...))
}

// cableCommands returns commands that create every link. A veth pair is created inside its
// two namespaces, so its names never exist on the host.
func cableCommands(p parts, namespace func(node string) string) script {
	s := script{}
	s.add(nameGateway, "link add %s type bridge", machineBridge)
	for _, c := range cables(p) {
		s.add(c.node, "link add %s type veth peer name %s netns %s", c.link, c.peerLink, namespace(c.peerNode))
	}
	return s
}

// addressCommands returns commands that bring up every link and add addresses and routes.
func addressCommands(t Topology, p parts) script {
	s := script{}
	for _, node := range p.nodeNames() {
		s.add(node, "link set lo up")
	}
	s.add(nameGateway, "link set %s up", machineBridge)
	for _, c := range cables(p) {
		s.add(c.node, "link set %s up", c.link)
		s.add(c.peerNode, "link set %s up", c.peerLink)
		if c.onMachine() {
			s.add(nameGateway, "link set %s master %s", p.switchPort(c), machineBridge)
		}
	}
	for _, a := range addresses(t, p) {
		for _, own := range a.own.Both() {
			// Duplicate address detection would delay this by a second.
			s.add(a.node, "address add %s dev %s%s", onLink(own), a.link, map[bool]string{true: " nodad"}[own.Is6()])
		}
	}
	for _, a := range addresses(t, p) {
		for _, gateway := range a.gateway.Both() {
			s.add(a.node, "route add default via %s", gateway)
		}
	}
	for i := range p.controlPlaneNodes {
		for _, pod := range t.pods[i].Both() {
			s.add(nameGateway, "route add %s via %s", onLink(pod).Masked(), t.controlPlane[i].Like(pod))
		}
	}
	return s
}

// wire creates the links, addresses and routes of the topology.
func (l *Lab) wire(ctx context.Context) error {
	for _, n := range l.nodes {
		if err := n.sysctl(); err != nil {
			return err
		}
	}
	for _, s := range []script{
		cableCommands(l.has, l.namespace), linkCommands(l.has),
		addressCommands(l.Topology, l.has),
	} {
		for _, name := range l.has.nodeNames() {
			if len(s[name]) == 0 {
				continue
			}
			batch := strings.Join(s[name], "\n") + "\n"
			if _, err := ip(ctx, batch, "-n", l.namespace(name), "-batch", "-"); err != nil {
				return fmt.Errorf("wire %s: %w", name, err)
			}
		}
	}
	return nil
}
