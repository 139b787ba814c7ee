// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Link is the kind of link that carries the control-plane nodes' VIPs.
type Link int

// The kinds of links. The plain one is a veth with the name of OVN-Kubernetes's bridge. The
// others are created over such a veth, the port.
const (
	LinkPlain Link = iota
	LinkBridge
	LinkBond
	LinkVLAN
	LinkNIC // a veth with a network card's name
)

// port is the network interface below a link that is not plain.
const port = "ens3"

// secondPort is the second interface of a bond.
const secondPort = "ens4"

const vlanID = 100

// name returns the link's name in keepalived.conf.
func (k Link) name() string {
	switch k {
	case LinkBond:
		return "bond0"
	case LinkVLAN:
		return fmt.Sprintf("%s.%d", port, vlanID)
	case LinkNIC:
		return port
	case LinkPlain, LinkBridge:
	}
	return uplink
}

// kind returns the link's type for ip(8), or "" for the plain one.
func (k Link) kind() string {
	return map[Link]string{LinkBridge: "bridge", LinkBond: "bond", LinkVLAN: "vlan"}[k]
}

// port returns the interface at the end of a control-plane node's cable.
func (k Link) port() string {
	if k == LinkPlain {
		return uplink
	}
	return port
}

// KernelHas reports whether this machine's kernel supports a kind of link, by creating one.
func KernelHas(ctx context.Context, k Link) (bool, error) {
	if k == LinkPlain {
		return true, nil
	}
	trial := "link add name trial type " + k.kind()
	if k == LinkVLAN {
		// The link is not lo, which does not support VLANs.
		trial = fmt.Sprintf("link add name under type veth\nlink add link under name trial type %s id %d", k.kind(), vlanID)
	}
	var err error
	inside := onThread(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, func() error {
		if _, err := os.Stat("/sys/module/bonding"); err != nil && k == LinkBond {
			// By default the module creates bond0 on the machine. ip reports a missing
			// module.
			_, _ = Output(ctx, nil, "", "modprobe", "bonding", "max_bonds=0")
		}
		_, err = Output(ctx, nil, trial+"\n", "ip", "-batch", "-")
		return nil
	})
	switch {
	case inside != nil:
		return false, fmt.Errorf("try a %s: %w", k.kind(), inside)
	case err == nil:
		return true, nil
	case strings.Contains(err.Error(), "Unknown device type"), strings.Contains(err.Error(), "not supported"):
		return false, nil
	}
	return false, fmt.Errorf("try a %s: %w", k.kind(), err)
}

// twoPorts reports whether each control-plane node is connected by two cables.
func (p parts) twoPorts() bool { return p.link == LinkBond }

// tagged reports whether the control-plane nodes' frames carry a VLAN tag.
func (p parts) tagged() bool { return p.link == LinkVLAN }

// linkCommands returns commands that create the link of each control-plane node over its
// ports, and at the other end of a tagged cable the link that removes the tag.
func linkCommands(p parts) script {
	s := script{}
	name := p.link.name()
	for i := range p.controlPlaneNodes {
		master := controlPlaneName(i)
		switch {
		case p.link == LinkPlain, p.link == LinkNIC:
			continue
		case p.tagged():
			s.add(master, "link add link %s name %s type vlan id %d", port, name, vlanID)
			s.add(nameGateway, "link add link %s name %s type vlan id %d", master, taggedName(master), vlanID)
			// A VLAN link comes up only over a link that is up.
			s.add(master, "link set %s up", port)
			s.add(nameGateway, "link set %s up", master)
			s.add(nameGateway, "link set %s up", taggedName(master))
		case p.twoPorts():
			s.add(master, "link add name %s type bond mode active-backup miimon 100", name)
			s.add(master, "link set %s master %s", port, name)
			s.add(master, "link set %s master %s", secondPort, name)
		default:
			s.add(master, "link add name %s type bridge", name)
			s.add(master, "link set %s master %s", port, name)
		}
		s.add(master, "link set %s up", name)
	}
	return s
}

func taggedName(master string) string { return fmt.Sprintf("%s.%d", master, vlanID) }
