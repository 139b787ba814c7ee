// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"strings"
)

// Names of the nodes that a lab has one of; masters and pods are numbered.
const (
	nameGateway  = "gateway"
	nameInternet = "internet"
	nameWorker   = "worker"
	nameEgress   = "egress"
	nameArbiter  = "arbiter"
)

func masterName(i int) string { return fmt.Sprintf("master%d", i) }

func podName(i int) string { return fmt.Sprintf("pod%d", i) }

// parts says which nodes a lab has, beside those that each has.
type parts struct {
	masters int // of its own
	egress  bool
	arbiter bool
	compact bool // no worker
	link    Link // of the masters
}

// allParts are those of the largest lab.
func allParts() parts { return parts{masters: Masters, egress: true, arbiter: true} }

// nodeNames lists every node of a lab with such parts.
func (p parts) nodeNames() []string {
	names := []string{nameGateway, nameInternet}
	if !p.compact {
		names = append(names, nameWorker)
	}
	for i := range p.masters {
		names = append(names, masterName(i), podName(i))
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

// cables lists who is plugged into whom: the gateway is the switch of the
// machine network and the router to the internet, and behind each master is
// the network of its pods. The outside network joins the egress proxy and the
// worker alone: nobody else has a route there.
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
	for i := range p.masters {
		out = append(out,
			cable{masterName(i), p.link.port(), nameGateway, masterName(i)},
			cable{podName(i), "eth0", masterName(i), "pods"})
		if p.twoPorts() {
			out = append(out, cable{masterName(i), secondPort, nameGateway, masterName(i) + "b"})
		}
	}
	if p.egress {
		out = append(out,
			cable{nameEgress, uplink, nameGateway, nameEgress},
			cable{nameEgress, outsideLink, nameWorker, outsideLink})
	}
	return out
}

// onMachine tells whether a cable joins a node to the machine network.
func (c cable) onMachine() bool {
	return c.peerNode == nameGateway && (c.link == uplink || c.link == port || c.link == secondPort)
}

// switchPort is the link of the gateway that a cable of the machine network
// reaches its switch by.
func (p parts) switchPort(c cable) string {
	if p.tagged() && c.link == port {
		return taggedName(c.peerLink)
	}
	return c.peerLink
}

// address gives a link of a node its addresses and, where there is a
// gateway, its default routes.
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
	for i := range p.masters {
		out = append(out,
			address{masterName(i), p.link.name(), t.masters[i], t.gateway},
			address{masterName(i), "pods", t.podGateways[i], Pair{}},
			address{podName(i), "eth0", t.pods[i], t.podGateways[i]})
	}
	return out
}

// machineBridge is the switch of the machine network.
const machineBridge = "machine"

// outsideLink is the interface of a node that is on the outside network.
const outsideLink = "outside"

// script is what `ip -batch` is to do in each node.
type script map[string][]string

func (s script) add(node, format string, args ...any) {
	s[node] = append(s[node], fmt.Sprintf(format, args...))
}

// cableCommands makes every link. A veth pair is made right inside its two
// namespaces, so the host never sees one of the names.
func cableCommands(p parts, namespace func(node string) string) script {
	s := script{}
	s.add(nameGateway, "link add %s type bridge", machineBridge)
	for _, c := range cables(p) {
		s.add(c.node, "link add %s type veth peer name %s netns %s", c.link, c.peerLink, namespace(c.peerNode))
	}
	return s
}

// addressCommands brings every link up and gives addresses and routes.
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
			// Duplicate address detection would only cost a second here.
			s.add(a.node, "address add %s dev %s%s", onLink(own), a.link, map[bool]string{true: " nodad"}[own.Is6()])
		}
	}
	for _, a := range addresses(t, p) {
		for _, gateway := range a.gateway.Both() {
			s.add(a.node, "route add default via %s", gateway)
		}
	}
	for i := range p.masters {
		for _, pod := range t.pods[i].Both() {
			s.add(nameGateway, "route add %s via %s", onLink(pod).Masked(), t.masters[i].Like(pod))
		}
	}
	return s
}

// wire makes the links, addresses and routes of the lab's topology.
func (l *Lab) wire(ctx context.Context) error {
	for _, n := range l.nodes {
		if err := n.sysctl(); err != nil {
			return err
		}
	}
	for _, s := range []script{cableCommands(l.has, l.namespace), linkCommands(l.has), addressCommands(l.Topology, l.has)} {
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
