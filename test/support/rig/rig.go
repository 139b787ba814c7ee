// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Links of the host. The first one leads to the clients and the ingress.
const (
	FirstLink  = "h0"
	SecondLink = "h1"
	outside    = "c0" // of the other namespace
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// APIVIPs returns the addresses for API VIPs. At first, none of them is on the host.
func APIVIPs() []netip.Addr {
	return []netip.Addr{addr("10.77.0.5"), addr("fd77::5"), addr("10.77.0.6"), addr("fd77::6")}
}

// IngressVIPs returns the addresses of the ingress.
func IngressVIPs() []netip.Addr { return []netip.Addr{addr("10.77.0.80"), addr("fd77::80")} }

// ownAddresses returns the host's addresses on the first link: one IPv4 address, and the IPv6
// addresses. The kernel generates no link-local address: it would be tentative for up to two
// seconds after IPv6 or the link is enabled, and meanwhile the host could not resolve its
// clients for a VIP on the other link (ndisc_solicit).
func ownAddresses() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("10.77.0.10/24"), netip.MustParsePrefix("fd77::10/64"),
		netip.MustParsePrefix("fe80::10/64"),
	}
}

// HostAddress returns an own address of the host.
func HostAddress() netip.Addr { return ownAddresses()[0].Addr() }

// NameServer returns an address of the clients' side.
func NameServer() netip.Addr { return addr("10.77.0.1") }

// clients is the number of addresses of clients in each family.
const clients = 8

// clientAddress returns the address of a client for connections to a VIP.
func clientAddress(i int, vip netip.Addr) netip.Addr {
	if vip.Is4() {
		return addr(fmt.Sprintf("10.77.0.%d", 101+i%clients))
	}
	return addr(fmt.Sprintf("fd77::%d", 101+i%clients))
}

// Rig is a running network. Its methods are for one goroutine, except where the comment states otherwise.
type Rig struct {
	Host    *lab.Node // with the service
	Outside *lab.Node // with the clients and the ingress
	Dir     string    // of the input files of the service

	lab       *lab.Lab
	binary    string
	addresses addresses
}

// New creates the network. The caller must Close it.
func New(ctx context.Context, binary string) (*Rig, error) {
	l, nodes, err := lab.NewBare(ctx, "master0", "gateway")
	if err != nil {
		return nil, err
	}
	r := &Rig{Host: nodes[0], Outside: nodes[1], Dir: filepath.Join(nodes[0].Dir, "files"), lab: l, binary: binary}
	err = errors.Join(os.Mkdir(r.Dir, 0o750), os.Mkdir(r.StateDir(), 0o750), r.wire(ctx))
	if err == nil {
		err = r.openAddresses()
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close removes the network and all processes in it.
func (r *Rig) Close() error {
	var err error
	if r.addresses.conn != nil {
		err = r.addresses.conn.Close()
	}
	return errors.Join(err, r.lab.Close())
}

// StateDir returns the parent of the service's state directory.
func (r *Rig) StateDir() string { return filepath.Join(r.Host.Dir, "state") }

// wire connects the two namespaces.
func (r *Rig) wire(ctx context.Context) error {
	for _, n := range []*lab.Node{r.Host, r.Outside} {
		if err := batch(ctx, n, "link set lo up"); err != nil {
			return err
		}
	}
	steps := []string{
		fmt.Sprintf("link add %s type veth peer name %s netns %s", FirstLink, outside, r.Outside.Namespace),
		fmt.Sprintf("link add %s type veth peer name %sp", SecondLink, SecondLink),
		"link set " + FirstLink + " addrgenmode none", "link set " + SecondLink + " addrgenmode none",
		"link set " + FirstLink + " up", "link set " + SecondLink + " up", "link set " + SecondLink + "p up",
	}
	for _, p := range ownAddresses() {
		steps = append(steps, fmt.Sprintf("address add %s dev %s nodad", p, FirstLink))
	}
	if err := batch(ctx, r.Host, steps...); err != nil {
		return err
	}
	var mac string
	err := r.Host.InNamespace(func() error {
		link, err := net.InterfaceByName(FirstLink)
		if err != nil {
			return fmt.Errorf("read the link's address: %w", err)
		}
		mac = link.HardwareAddr.String()
		return nil
	})
	if err != nil {
		return err
	}
	steps = []string{
		"link set " + outside + " up", fmt.Sprintf("address add %s/24 dev %s", NameServer(), outside),
		"address add fd77::1/64 dev " + outside + " nodad",
	}
	for i := range clients {
		for _, vip := range APIVIPs()[:2] {
			steps = append(steps, fmt.Sprintf("address add %s dev %s nodad", netip.PrefixFrom(clientAddress(i, vip),
				vip.BitLen()), outside))
		}
	}
	for _, vip := range APIVIPs()[:2] {
		steps = append(steps, fmt.Sprintf("address add %s dev %s nodad", netip.PrefixFrom(HalfOpenAddress(vip), vip.BitLen()),
			outside))
	}
	for _, a := range IngressVIPs() {
		steps = append(steps, fmt.Sprintf("address add %s dev %s nodad", netip.PrefixFrom(a, a.BitLen()), outside))
	}
	// What keepalived's gratuitous ARP does at a failover is done here once.
	for _, a := range APIVIPs() {
		steps = append(steps, fmt.Sprintf("neighbour replace %s lladdr %s nud permanent dev %s", a, mac, outside))
	}
	if err := batch(ctx, r.Outside, steps...); err != nil {
		return err
	}
	_, err = r.Outside.Input(ctx, dropSYNACK(), "nft", "-f", "-")
	return err
}

// batch runs commands of ip(8), up to the first that fails.
func batch(ctx context.Context, n *lab.Node, commands ...string) error {
	_, err := n.Input(ctx, strings.Join(commands, "\n")+"\n", "ip", "-batch", "-")
	return err
}

// LinkName returns the name of a link of the host by number.
func LinkName(i int) string { return []string{FirstLink, SecondLink}[i] }

// Duplicate gives another host an address, until remove is called.
func (r *Rig) Duplicate(ctx context.Context, vip netip.Addr) (remove func() error, err error) {
	p := netip.PrefixFrom(vip, vip.BitLen()).String()
	if err := batch(ctx, r.Outside, fmt.Sprintf("address replace %s dev %s nodad", p, outside)); err != nil {
		return nil, err
	}
	return func() error {
		return batch(context.WithoutCancel(ctx), r.Outside, fmt.Sprintf("address del %s dev %s", p, outside))
	}, nil
}

// ListenSilently receives packets at a UDP port of NameServer and never answers.
func (r *Rig) ListenSilently(ctx context.Context, port uint16) (conn net.PacketConn, err error) {
	err = r.Outside.InNamespace(func() error {
		conn, err = (&net.ListenConfig{}).ListenPacket(ctx, "udp", netip.AddrPortFrom(NameServer(), port).String())
		if err != nil {
			return fmt.Errorf("listen silently: %w", err)
		}
		return nil
	})
	return conn, err
}

// AwaitDADFailed waits until the kernel detects that another host uses an address.
func (r *Rig) AwaitDADFailed(ctx context.Context, vip netip.Addr) error {
	return lab.Eventually(ctx, "a duplicate address", func(ctx context.Context) error {
		out, err := r.Host.Run(ctx, "ip", "-o", "address", "show", "to", vip.String())
		if err == nil && !strings.Contains(out, "dadfailed") {
			err = fmt.Errorf("found: %s", out)
		}
		return err
	})
}

// ManyAddressEvents adds and removes addresses of no interest: two events for each.
func (r *Rig) ManyAddressEvents(ctx context.Context, events int) error {
	var steps []string
	for i := range events / 2 {
		a := netip.AddrFrom4([4]byte{10, 99, byte(i >> 8), byte(i)})
		steps = append(steps, fmt.Sprintf("address add %s/32 dev %s", a, SecondLink), fmt.Sprintf("address del %s/32 dev %s",
			a, SecondLink))
	}
	return batch(ctx, r.Host, steps...)
}

// SetLink sets a link up or down. A link that comes up gets the host's own addresses again.
func (r *Rig) SetLink(ctx context.Context, link int, up bool) error {
	if !up {
		return batch(ctx, r.Host, "link set "+LinkName(link)+" down")
	}
	if err := batch(ctx, r.Host, "link set "+LinkName(link)+" up"); err != nil {
		return err
	}
	return r.restoreOwn(ctx)
}

// SetIPv6 disables or enables IPv6 on the host.
func (r *Rig) SetIPv6(ctx context.Context, on bool) error {
	value := "1"
	if on {
		value = "0"
	}
	if err := r.Sysctl("ipv6/conf/all/disable_ipv6", value); err != nil {
		return err
	}
	if !on {
		return nil
	}
	return r.restoreOwn(ctx)
}

// replaceOwn returns commands that add the host's addresses of IPv6.
func replaceOwn() (steps []string) {
	for _, p := range ownAddresses()[1:] {
		steps = append(steps, fmt.Sprintf("address replace %s dev %s nodad", p, FirstLink))
	}
	return steps
}

func (r *Rig) restoreOwn(ctx context.Context) error {
	// It fails while IPv6 or the link is off; the next call adds them.
	_ = batch(ctx, r.Host, replaceOwn()...)
	return nil
}

// Sysctl writes a setting below /proc/sys/net of the host.
func (r *Rig) Sysctl(key, value string) error {
	return r.Host.InNamespace(func() error {
		if err := os.WriteFile(filepath.Join("/proc/sys/net", key), []byte(value), 0o600); err != nil {
			return fmt.Errorf("set sysctl on the host: %w", err)
		}
		return nil
	})
}

// Flush removes every table that nobody owns, as `nft flush ruleset` does.
func (r *Rig) Flush(ctx context.Context) error {
	_, err := r.Host.Run(ctx, "nft", "flush", "ruleset")
	return err
}

// ForeignTable adds a table of another program with the hooks and priorities of the
// service's, which changes no packet.
func (r *Rig) ForeignTable(ctx context.Context) error {
	_, err := r.Host.Input(ctx, `table inet foreign {
	chain prerouting { type nat hook prerouting priority -110; tcp dport 6443 counter; }
	chain output { type nat hook output priority -110; tcp dport 6443 counter; }
	chain input { type filter hook input priority -1; tcp dport 6443 counter; }
}
`, "nft", "-f", "-")
	return err
}

// Reset removes all API VIPs and other programs' tables, and brings the links up.
func (r *Rig) Reset(ctx context.Context) error {
	err := errors.Join(r.SetIPv6(ctx, true), r.Flush(ctx))
	steps := append([]string{"link set " + FirstLink + " up", "link set " + SecondLink + " up"}, replaceOwn()...)
	for _, vip := range APIVIPs() {
		err = errors.Join(err, r.RemoveVIP(vip))
	}
	return errors.Join(err, batch(ctx, r.Host, steps...))
}
