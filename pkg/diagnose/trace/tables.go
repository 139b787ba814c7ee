// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// The limits of the packets that are traced, in each chain: a flood must not become a flood of
// events. A separate limit applies to packets that begin a connection.
const (
	synPerSecond   = 10
	otherPerSecond = 50
	burst          = 50
)

// loopbackIndex is the index of lo in every network namespace (LOOPBACK_IFINDEX of net/flow.h).
const loopbackIndex = 1

// webPort is the port of the VIPs that clients use.
const webPort = 80

// tablePrefix begins the names of the tables of all traces; the process ID follows.
const tablePrefix = "http01-trace-"

// reg is the register that all expressions use in turn, as nft does.
const reg = unix.NFT_REG_1

// Hooks of the marker chains: a packet that is traced shows there that it came so far.
const (
	prerouting  = "prerouting"
	input       = "input"
	forward     = "forward"
	output      = "output"
	postrouting = "postrouting"
	ingress     = "ingress"
	egress      = "egress"

	inputLast       = "input-last"
	postroutingLast = "postrouting-last"
)

// tables are the two tables of a trace: the kernel removes them with the connection.
type tables struct {
	conn *nftables.Conn
	name string
}

// addTables adds the tables in one batch.
func addTables(o Options, devices []report.TracedDevice, dial func() (*nftables.Conn, error)) (*tables, error) {
	conn, err := dial()
	if err != nil {
		return nil, fmt.Errorf("open a netfilter netlink socket: %w", err)
	}
	t := &tables{conn: conn, name: fmt.Sprintf("%s%d", tablePrefix, os.Getpid())}
	if err := t.add(o, devices); err != nil {
		return nil, errors.Join(err, conn.CloseLasting())
	}
	return t, nil
}

// dialOwner opens the connection that owns the tables.
func dialOwner() (*nftables.Conn, error) {
	return nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		return c.SetOption(netlink.ExtendedAcknowledge, true)
	}))
}

func (t *tables) add(o Options, devices []report.TracedDevice) error {
	inet := t.conn.AddTable(&nftables.Table{
		Name: t.name, Family: nftables.TableFamilyINet, Flags: nftables.TableFlagOwner,
	})
	for _, c := range []struct {
		name     string
		hook     *nftables.ChainHook
		priority int
		rules    [][]expr.Any
	}{
		{prerouting, nftables.ChainHookPrerouting, math.MinInt32, o.arrivalRules(true)},
		{output, nftables.ChainHookOutput, math.MinInt32, o.departureRules()},
		{input, nftables.ChainHookInput, math.MinInt32, nil},
		{inputLast, nftables.ChainHookInput, math.MaxInt32, nil},
		{forward, nftables.ChainHookForward, math.MinInt32, nil},
		{postroutingLast, nftables.ChainHookPostrouting, math.MaxInt32, nil},
	} {
		t.addChain(inet, c.name, "", c.hook, c.priority, c.rules)
	}
	if len(devices) > 0 {
		netdev := t.conn.AddTable(&nftables.Table{
			Name: t.name, Family: nftables.TableFamilyNetdev, Flags: nftables.TableFlagOwner,
		})
		for _, d := range devices {
			t.addChain(netdev, fmt.Sprintf("ingress-%d", d.Index), d.Name, nftables.ChainHookIngress, math.MinInt32,
				o.arrivalRules(false))
		}
	}
	return t.conn.Flush()
}

// addChain adds: chain NAME { type filter hook HOOK [device DEVICE] priority PRIORITY; policy accept; RULES }.
func (t *tables) addChain(
	table *nftables.Table, name, device string, hook *nftables.ChainHook, priority int, rules [][]expr.Any,
) {
	accept := nftables.ChainPolicyAccept
	chain := t.conn.AddChain(&nftables.Chain{
		Table: table, Name: name, Type: nftables.ChainTypeFilter, Hooknum: hook, Device: device,
		Priority: nftables.ChainPriorityRef(nftables.ChainPriority(priority)), Policy: &accept, //nolint:gosec // an int32
	})
	for _, exprs := range rules {
		t.conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
	}
}

func (t *tables) close() error {
	if err := t.conn.CloseLasting(); err != nil {
		return fmt.Errorf("close the connection of the trace's tables: %w", err)
	}
	return nil
}

// arrivalRules mark what arrives: requests to held VIPs, and replies of others. Packets of this
// host itself arrive by lo, and output marks them. Only an inet table needs to leave them out.
func (o Options) arrivalRules(inet bool) (rules [][]expr.Any) {
	rules = acceptOthers(webPort)
	base := match{inet: inet, client: o.From, port: webPort}
	if inet {
		base.notLoopback = expr.MetaKeyIIF
	}
	for _, vip := range o.Held {
		rules = append(rules, base.mark(vip, true)...)
	}
	for _, vip := range o.Standby {
		rules = append(rules, base.mark(vip, false)...)
	}
	return rules
}

// departureRules mark what leaves: replies of held VIPs, and requests of this host.
func (o Options) departureRules() (rules [][]expr.Any) {
	rules = acceptOthers(o.Port, webPort) // port 80: what was not redirected
	for _, vip := range o.Held {
		for _, port := range []uint16{o.Port, webPort} {
			reply := match{inet: true, client: o.From, port: port, notLoopback: expr.MetaKeyOIF}
			rules = append(rules, reply.mark(vip, false)...)
		}
		if o.Local {
			rules = append(rules, match{inet: true, port: webPort}.mark(vip, true)...)
		}
	}
	for _, vip := range o.Standby {
		rules = append(rules, match{inet: true, port: webPort}.mark(vip, true)...)
	}
	return rules
}

// acceptOthers returns rules by which most packets leave the chain early. They encode: meta l4proto
// != tcp accept; tcp dport != 80 tcp sport != 8888 tcp sport != 80 accept.
func acceptOthers(sourcePorts ...uint16) [][]expr.Any {
	protocol, tcp := &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg}, []byte{unix.IPPROTO_TCP}
	accept := &expr.Verdict{Kind: expr.VerdictAccept}
	isNot := func(offset uint32, port uint16) []expr.Any {
		return []expr.Any{
			&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: reg, Data: binaryutil.BigEndian.PutUint16(port)},
		}
	}
	others := []expr.Any{protocol, &expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: tcp}}
	others = append(others, isNot(offsetDestinationPort, webPort)...)
	for _, port := range sourcePorts {
		others = append(others, isNot(0, port)...)
	}
	return [][]expr.Any{{protocol, &expr.Cmp{Op: expr.CmpOpNeq, Register: reg, Data: tcp}, accept}, append(others, accept)}
}

// offsetDestinationPort is the offset of the destination port in the TCP header (RFC 9293
// section 3.1).
const offsetDestinationPort = 2

// match selects packets between a VIP and its clients.
type match struct {
	inet        bool // of an inet table; otherwise of a netdev table
	vip, client netip.Addr
	port        uint16       // of the VIP
	toVIP       bool         // requests; otherwise replies
	notLoopback expr.MetaKey // meta iif or meta oif, which must not be lo; 0: any device
}

// mark returns two rules: for packets that begin a connection, and for all others.
func (m match) mark(vip netip.Addr, toVIP bool) [][]expr.Any {
	if m.client.IsValid() && m.client.Is4() != vip.Is4() {
		return nil
	}
	m.vip, m.toVIP = vip, toVIP
	return [][]expr.Any{m.rule(expr.CmpOpNeq, synPerSecond), m.rule(expr.CmpOpEq, otherPerSecond)}
}

// rule encodes: tcp dport 80 ip daddr VIP [ip saddr CLIENT] [iif != lo] tcp flags & (syn) != 0
// limit rate 10/second burst 50 packets meta nftrace set 1.
func (m match) rule(syn expr.CmpOp, rate uint64) []expr.Any {
	vipOffset, clientOffset, portOffset := uint32(16), uint32(12), uint32(offsetDestinationPort) // RFC 791 section 3.1
	length, family := uint32(4), byte(unix.NFPROTO_IPV4)
	etherType := uint16(unix.ETH_P_IP)
	if m.vip.Is6() {
		// RFC 8200 section 3
		vipOffset, clientOffset, length, family, etherType = 24, 8, 16, unix.NFPROTO_IPV6, unix.ETH_P_IPV6
	}
	if !m.toVIP {
		vipOffset, clientOffset, portOffset = clientOffset, vipOffset, 0
	}
	const offsetFlags, flagSYN = 13, 2 // RFC 9293 section 3.1
	var rule []expr.Any
	if m.inet {
		// meta nfproto ipv4
		rule = []expr.Any{
			&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: reg},
			&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: []byte{family}},
		}
	} else {
		// meta protocol ip
		rule = []expr.Any{
			&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: reg},
			&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: binaryutil.BigEndian.PutUint16(etherType)},
		}
	}
	rule = append(rule,
		// meta l4proto tcp
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: []byte{unix.IPPROTO_TCP}},
		// tcp dport 80
		&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: binaryutil.BigEndian.PutUint16(m.port)},
		// ip daddr VIP
		&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: vipOffset, Len: length},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: m.vip.AsSlice()},
	)
	if m.client.IsValid() {
		rule = append(rule,
			// ip saddr CLIENT
			&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: clientOffset, Len: length},
			&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: m.client.AsSlice()},
		)
	}
	if m.notLoopback != 0 {
		rule = append(rule,
			// iif != lo
			&expr.Meta{Key: m.notLoopback, Register: reg},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: reg, Data: binaryutil.NativeEndian.PutUint32(loopbackIndex)},
		)
	}
	return append(rule,
		// tcp flags & (syn) != 0
		&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: offsetFlags, Len: 1},
		&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 1, Mask: []byte{flagSYN}, Xor: []byte{0}},
		&expr.Cmp{Op: syn, Register: reg, Data: []byte{0}},
		// limit rate 10/second burst 50 packets
		&expr.Limit{Type: expr.LimitTypePkts, Rate: rate, Unit: expr.LimitTimeSecond, Burst: burst},
		// meta nftrace set 1
		&expr.Immediate{Register: reg, Data: []byte{1}},
		&expr.Meta{Key: expr.MetaKeyNFTRACE, SourceRegister: true, Register: reg},
	)
}

// chainKey identifies a chain.
type chainKey struct {
	family       uint8
	table, chain string
}

// chainInfo is what the trace needs of a chain.
type chainInfo struct {
	hook     string
	priority int
	nat      bool
}

// listChains lists the chains of all tables. Only base chains have a hook.
func (t *tables) listChains() (map[chainKey]chainInfo, error) {
	chains, err := t.conn.ListChains()
	if err != nil {
		return nil, fmt.Errorf("list the chains of all tables: %w", err)
	}
	all := make(map[chainKey]chainInfo, len(chains))
	for _, c := range chains {
		info := chainInfo{nat: c.Type == nftables.ChainTypeNAT}
		if c.Hooknum != nil {
			info.hook = hookName(c.Table.Family, *c.Hooknum)
		}
		if c.Priority != nil {
			info.priority = int(*c.Priority)
		}
		all[chainKey{uint8(c.Table.Family), c.Table.Name, c.Name}] = info
	}
	return all, nil
}

// rulesetID returns the generation of the ruleset of this network namespace, which changes with
// each transaction.
func (t *tables) rulesetID() (uint32, error) {
	generation, err := t.conn.GetGen()
	if err != nil {
		return 0, fmt.Errorf("read the generation of the ruleset: %w", err)
	}
	return generation.ID, nil
}

// hookName returns nft's name of a hook (linux/netfilter.h).
func hookName(family nftables.TableFamily, hook nftables.ChainHook) string {
	if family == nftables.TableFamilyNetdev {
		return [...]string{ingress, egress}[min(hook, 1)]
	}
	names := []string{prerouting, input, forward, output, postrouting, ingress}
	if int(hook) >= len(names) {
		return "unknown"
	}
	return names[hook]
}

// familyName returns nft's name of a family.
func familyName(family uint8) string {
	names := map[uint8]string{
		uint8(nftables.TableFamilyIPv4):   "ip",
		uint8(nftables.TableFamilyIPv6):   "ip6",
		uint8(nftables.TableFamilyINet):   "inet",
		uint8(nftables.TableFamilyNetdev): "netdev",
		uint8(nftables.TableFamilyBridge): "bridge",
		uint8(nftables.TableFamilyARP):    "arp",
	}
	return names[family]
}

// isOwn reports whether a trace created this table.
func isOwn(table string) bool { return strings.HasPrefix(table, tablePrefix) }

// openTraceSocket opens a netlink socket that receives the events of the trace (NFNLGRP_NFTRACE).
func openTraceSocket() (fd int, err error) {
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_NETFILTER)
	if err != nil {
		return -1, fmt.Errorf("open a netlink socket for the trace: %w", err)
	}
	const buffer = 4 << 20 // some 10,000 events
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer),
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_NFTRACE),
	)
	if err != nil {
		return -1, errors.Join(fmt.Errorf("receive the kernel's trace: %w", err), unix.Close(fd))
	}
	return fd, nil
}

// explain adds the remediation to an error of the kernel.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("cannot trace packets: this process lacks CAP_NET_ADMIN: run it as root (%w)", err)
	case slices.ContainsFunc([]error{unix.EOPNOTSUPP, unix.EINVAL, unix.ENOENT, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT},
		func(e error) bool { return errors.Is(err, e) }):
		return fmt.Errorf(
			"cannot trace packets: the kernel lacks the owner flag of tables, netdev tables or meta nftrace (Linux 5.12 or a "+
				"backport; modprobe nf_tables) (%w)", err)
	default:
		return fmt.Errorf("cannot trace packets: %w", err)
	}
}
