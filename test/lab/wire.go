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
)

func masterName(i int) string { return fmt.Sprintf("master%d", i) }

func podName(i int) string { return fmt.Sprintf("pod%d", i) }

// nodeNames lists every node that a lab can have.
func nodeNames() []string { return nodeNamesWith(Masters) }

// nodeNamesWith lists every node of a lab with that many masters of its own.
func nodeNamesWith(masters int) []string {
	names := []string{nameGateway, nameInternet, nameWorker}
	for i := range masters {
		names = append(names, masterName(i), podName(i))
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
// the network of its pods.
func cables(masters int) []cable {
	out := []cable{
		{nameInternet, "eth0", nameGateway, "internet"},
		{nameWorker, uplink, nameGateway, nameWorker},
	}
	for i := range masters {
		out = append(out,
			cable{masterName(i), uplink, nameGateway, masterName(i)},
			cable{podName(i), "eth0", masterName(i), "pods"})
	}
	return out
}

// address gives a link of a node its two addresses and, where there is a
// gateway, its default routes.
type address struct {
	node, link string
	own        Pair
	gateway    Pair
}

func addresses(t Topology, masters int) []address {
	out := []address{
		{nameGateway, machineBridge, t.gateway, Pair{}},
		{nameGateway, "internet", t.internetGateway, Pair{}},
		{nameInternet, "eth0", t.internet, t.internetGateway},
		{nameWorker, uplink, t.worker, t.gateway},
	}
	for i := range masters {
		out = append(out,
			address{masterName(i), uplink, t.masters[i], t.gateway},
			address{masterName(i), "pods", t.podGates[i], Pair{}},
			address{podName(i), "eth0", t.pods[i], t.podGates[i]})
	}
	return out
}

// machineBridge is the switch of the machine network.
const machineBridge = "machine"

// script is what `ip -batch` is to do in each node.
type script map[string][]string

func (s script) add(node, format string, args ...any) {
	s[node] = append(s[node], fmt.Sprintf(format, args...))
}

// cabling makes every link. A veth pair is made right inside its two
// namespaces, so the host never sees one of the names.
func cabling(masters int, namespace func(node string) string) script {
	s := script{}
	s.add(nameGateway, "link add %s type bridge", machineBridge)
	for _, c := range cables(masters) {
		s.add(c.node, "link add %s type veth peer name %s netns %s", c.link, c.peerLink, namespace(c.peerNode))
	}
	return s
}

// addressing brings every link up and gives addresses and routes.
func addressing(t Topology, masters int) script {
	s := script{}
	for _, node := range nodeNamesWith(masters) {
		s.add(node, "link set lo up")
	}
	s.add(nameGateway, "link set %s up", machineBridge)
	for _, c := range cables(masters) {
		s.add(c.node, "link set %s up", c.link)
		s.add(c.peerNode, "link set %s up", c.peerLink)
		if c.link == uplink {
			s.add(nameGateway, "link set %s master %s", c.peerLink, machineBridge)
		}
	}
	for _, a := range addresses(t, masters) {
		// Duplicate address detection would only cost a second here.
		s.add(a.node, "address add %s dev %s", onLink(a.own.V4), a.link)
		s.add(a.node, "address add %s dev %s nodad", onLink(a.own.V6), a.link)
	}
	for _, a := range addresses(t, masters) {
		if a.gateway.V4.IsValid() {
			s.add(a.node, "route add default via %s", a.gateway.V4)
			s.add(a.node, "route add default via %s", a.gateway.V6)
		}
	}
	for i := range masters {
		s.add(nameGateway, "route add %s via %s", network(t.pods[i].V4), t.masters[i].V4)
		s.add(nameGateway, "route add %s via %s", network(t.pods[i].V6), t.masters[i].V6)
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
	for _, s := range []script{cabling(l.own, l.namespace), addressing(l.Topology, l.own)} {
		for _, name := range nodeNamesWith(l.own) {
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
