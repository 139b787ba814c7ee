// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// KernelRuleset is the ruleset of this host. Chains and sets are read on first use.
type KernelRuleset struct {
	conn      *netlink.Conn
	chains    []Chain
	anonymous map[chainKey]bool

	rulesByChain  map[chainKey][]Rule
	setsByName    map[setKey]set
	setProperties map[Table]map[string]set // the sets of a table, without elements
}

type chainKey struct {
	table Table
	name  string
}

type setKey struct {
	table Table
	name  string
}

// Attributes and flags that package unix lacks, from linux/netfilter/nf_tables.h.
const (
	setDescConcat   = 2  // NFTA_SET_DESC_CONCAT
	setFieldLength  = 1  // NFTA_SET_FIELD_LEN
	setKeyEnd       = 10 // NFTA_SET_ELEM_KEY_END
	setExpressions  = 11 // NFTA_SET_ELEM_EXPRESSIONS
	elementCatchAll = 2  // NFT_SET_ELEM_CATCHALL
	chainFlags      = 10 // NFTA_CHAIN_FLAGS
	chainBinding    = 4  // NFT_CHAIN_BINDING: the chain belongs to one rule
	policyDrop      = 0  // NF_DROP
	tableDormant    = 1  // NFT_TABLE_F_DORMANT
)

// OpenKernelRuleset opens the ruleset of this thread's network namespace. All queries
// must finish before the deadline. It requires CAP_NET_ADMIN.
func OpenKernelRuleset(deadline time.Time) (*KernelRuleset, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot open a netfilter netlink socket: %w", err)
	}
	k := &KernelRuleset{
		conn: conn, anonymous: make(map[chainKey]bool), rulesByChain: make(map[chainKey][]Rule),
		setsByName: make(map[setKey]set), setProperties: make(map[Table]map[string]set),
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot set the deadline of a netlink socket: %w", err), conn.Close())
	}
	if k.chains, err = k.listChains(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return k, nil
}

// Close closes the netlink socket.
func (k *KernelRuleset) Close() error { return k.conn.Close() }

// Generation is a number that grows with each change of any ruleset.
func (k *KernelRuleset) Generation() (uint32, error) {
	answers, err := k.query(unix.NFT_MSG_GETGEN, 0, 0, nil)
	if err != nil || len(answers) == 0 {
		return 0, errors.Join(err, errors.New("cannot read the ruleset's generation"))
	}
	return answers[0].uint32At(unix.NFTA_GEN_ID), nil
}

// BaseChains lists the base chains.
func (k *KernelRuleset) BaseChains() []Chain { return k.chains }

func (k *KernelRuleset) isAnonymous(t Table, chain string) bool {
	return k.anonymous[chainKey{t, chain}]
}

// query sends a struct nfgenmsg with attributes and returns the replies.
func (k *KernelRuleset) query(kind uint16, family Family, flags netlink.HeaderFlags, put func(*netlink.AttributeEncoder)) ([]reply, error) {
	e := netlink.NewAttributeEncoder()
	e.ByteOrder = binary.BigEndian
	if put != nil {
		put(e)
	}
	body, err := e.Encode()
	if err != nil {
		return nil, fmt.Errorf("cannot encode a ruleset query: %w", err)
	}
	messages, err := k.conn.Execute(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind), Flags: netlink.Request | flags},
		Data:   append([]byte{byte(family), unix.NFNETLINK_V0, 0, 0}, body...),
	})
	if err != nil {
		return nil, err
	}
	list := make([]reply, 0, len(messages))
	for _, m := range messages {
		if len(m.Data) < 4 {
			return nil, fmt.Errorf("ruleset query: reply of %d bytes is too short", len(m.Data))
		}
		list = append(list, reply{Family(m.Data[0]), parseAttributes(m.Data[4:])})
	}
	return list, nil
}

type reply struct {
	family Family
	attributes
}

// dormantTables are the tables with the flag dormant.
func (k *KernelRuleset) dormantTables() (map[Table]bool, error) {
	answers, err := k.query(unix.NFT_MSG_GETTABLE, 0, netlink.Dump, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot list the tables: %w", err)
	}
	off := make(map[Table]bool)
	for _, a := range answers {
		if a.uint32At(unix.NFTA_TABLE_FLAGS)&tableDormant != 0 {
			off[Table{a.family, a.stringAt(unix.NFTA_TABLE_NAME)}] = true
		}
	}
	return off, nil
}

func (k *KernelRuleset) listChains() ([]Chain, error) {
	off, err := k.dormantTables()
	if err != nil {
		return nil, err
	}
	answers, err := k.query(unix.NFT_MSG_GETCHAIN, 0, netlink.Dump, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot list the chains of all tables: %w", err)
	}
	var list []Chain
	for _, a := range answers {
		table := Table{a.family, a.stringAt(unix.NFTA_CHAIN_TABLE)}
		if a.uint32At(chainFlags)&chainBinding != 0 {
			k.anonymous[chainKey{table, a.stringAt(unix.NFTA_CHAIN_NAME)}] = true
		}
		hook := parseAttributes(a.attributes[unix.NFTA_CHAIN_HOOK])
		if !a.has(unix.NFTA_CHAIN_HOOK) || off[table] {
			continue
		}
		list = append(list, Chain{
			Table: table, Name: a.stringAt(unix.NFTA_CHAIN_NAME),
			IsBase: true, Type: a.stringAt(unix.NFTA_CHAIN_TYPE),
			Hook:       Hook(hook.uint32At(unix.NFTA_HOOK_HOOKNUM)),
			Priority:   int32(hook.uint32At(unix.NFTA_HOOK_PRIORITY)), //nolint:gosec // signed in the kernel
			PolicyDrop: a.has(unix.NFTA_CHAIN_POLICY) && a.uint32At(unix.NFTA_CHAIN_POLICY) == policyDrop,
		})
	}
	return list, nil
}

func (k *KernelRuleset) chainRules(t Table, chain string) ([]Rule, error) {
	key := chainKey{t, chain}
	if list, known := k.rulesByChain[key]; known {
		return list, nil
	}
	answers, err := k.query(unix.NFT_MSG_GETRULE, t.Family, netlink.Dump, func(e *netlink.AttributeEncoder) {
		e.String(unix.NFTA_RULE_TABLE, t.Name)
		e.String(unix.NFTA_RULE_CHAIN, chain)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the rules of chain %s %s: %w", t, chain, err)
	}
	list := make([]Rule, 0, len(answers))
	for _, a := range answers {
		// A kernel without support for the filter lists the rules of all chains.
		if a.stringAt(unix.NFTA_RULE_CHAIN) != chain || a.stringAt(unix.NFTA_RULE_TABLE) != t.Name {
			continue
		}
		r := Rule{}
		if h := a.attributes[unix.NFTA_RULE_HANDLE]; len(h) == 8 {
			r.Handle = binary.BigEndian.Uint64(h)
		}
		forEachAttribute(a.attributes[unix.NFTA_RULE_EXPRESSIONS], func(_ uint16, b []byte) {
			x := parseAttributes(b)
			r.expressions = append(r.expressions, expression{x.stringAt(unix.NFTA_EXPR_NAME), x[unix.NFTA_EXPR_DATA]})
		})
		list = append(list, r)
	}
	k.rulesByChain[key] = list
	return list, nil
}

func (k *KernelRuleset) namedSet(t Table, name string) (set, error) {
	key := setKey{t, name}
	if s, known := k.setsByName[key]; known {
		return s, nil
	}
	known, err := k.tableSets(t)
	if err != nil {
		return set{}, err
	}
	s := known[name]
	answers, err := k.query(unix.NFT_MSG_GETSETELEM, t.Family, netlink.Dump, func(e *netlink.AttributeEncoder) {
		e.String(unix.NFTA_SET_ELEM_LIST_TABLE, t.Name)
		e.String(unix.NFTA_SET_ELEM_LIST_SET, name)
	})
	if err != nil {
		return set{}, fmt.Errorf("cannot list the elements of set %s %s: %w", t, name, err)
	}
	for _, a := range answers {
		forEachAttribute(a.attributes[unix.NFTA_SET_ELEM_LIST_ELEMENTS], func(_ uint16, b []byte) {
			s.elements = append(s.elements, parseElement(parseAttributes(b)))
		})
	}
	k.setsByName[key] = s
	return s, nil
}

func parseElement(a attributes) element {
	flags := a.uint32At(unix.NFTA_SET_ELEM_FLAGS)
	e := element{
		key:         a.dataAt(unix.NFTA_SET_ELEM_KEY),
		intervalEnd: flags&unix.NFT_SET_ELEM_INTERVAL_END != 0,
		catchAll:    flags&elementCatchAll != 0,
		data:        a.dataAt(unix.NFTA_SET_ELEM_DATA),
		verdict:     a.verdictAt(unix.NFTA_SET_ELEM_DATA),
		conditional: a.has(setExpressions),
	}
	if a.has(setKeyEnd) {
		e.keyEnd = a.dataAt(setKeyEnd)
	}
	if x := parseAttributes(a[unix.NFTA_SET_ELEM_EXPR]); a.has(unix.NFTA_SET_ELEM_EXPR) && x.stringAt(unix.NFTA_EXPR_NAME) != "counter" {
		e.conditional = true
	}
	return e
}

// tableSets are the sets of a table, without elements.
func (k *KernelRuleset) tableSets(t Table) (map[string]set, error) {
	if sets, known := k.setProperties[t]; known {
		return sets, nil
	}
	answers, err := k.query(unix.NFT_MSG_GETSET, t.Family, netlink.Dump, func(e *netlink.AttributeEncoder) {
		e.String(unix.NFTA_SET_TABLE, t.Name)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the sets of table %s: %w", t, err)
	}
	sets := make(map[string]set, len(answers))
	for _, a := range answers {
		s := set{interval: a.uint32At(unix.NFTA_SET_FLAGS)&unix.NFT_SET_INTERVAL != 0}
		desc := parseAttributes(a.attributes[unix.NFTA_SET_DESC])
		forEachAttribute(desc[setDescConcat], func(_ uint16, b []byte) {
			s.fieldLengths = append(s.fieldLengths, int(parseAttributes(b).uint32At(setFieldLength)))
		})
		sets[a.stringAt(unix.NFTA_SET_NAME)] = s
	}
	k.setProperties[t] = sets
	return sets, nil
}
