// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// state is what a rule is judged with.
type state struct {
	registers

	packet Packet
	hook   Hook
	table  Table
	rules  Ruleset
}

// effect is what an expression does: it matches or not, and may end the rule with
// one of several verdicts.
type effect struct {
	match

	verdicts []possible
	untracks bool // it takes the packet from connection tracking, and the rule goes on
}

// possible is a verdict and why it is not certain.
type possible struct {
	target

	why Why
}

// Verdicts of our own beside the kernel's (NF_… and NFT_…), which are -5 to 5.
const (
	verdictDrop   = 0 // NF_DROP
	verdictAccept = 1 // NF_ACCEPT
	verdictQueue  = 3 // NF_QUEUE, in the lower 16 bits
	verdictCaught = 100
)

func matches(m match) effect { return effect{match: m} }

// going is the effect of what has none on the packet's way.
func going() effect { return effect{} }

func ends(code int32) effect {
	return effect{verdicts: []possible{{target{code, ""}, 0}}}
}

// decided is the effect of what leaves the decision to others.
func decided() effect {
	return effect{verdicts: []possible{{target{verdictDrop, ""}, Opaque}, {target{verdictAccept, ""}, Opaque}}}
}

// opaque is the effect of what is not looked into.
func opaque() effect { return matches(match{why: Opaque}) }

// run evaluates one expression (net/netfilter/nft_*.c).
func (s *state) run(e expression) (effect, error) {
	a := parse(e.data)
	switch e.name {
	case "counter", "log", "secmark", "last", "dup":
		return going(), nil
	case "notrack":
		return effect{untracks: true}, nil
	case "meta":
		return s.loadOr(a, unix.NFTA_META_DREG, s.packet.meta(a.number(unix.NFTA_META_KEY), s.hook)), nil
	case "payload":
		return s.loadOr(a, unix.NFTA_PAYLOAD_DREG, s.payload(a)), nil
	case "ct":
		return s.loadOr(a, unix.NFTA_CT_DREG, s.conntrack(a)), nil
	case "fib":
		return s.fib(a), nil
	case "immediate":
		return s.immediate(a), nil
	case "cmp":
		return matches(s.compare(a)), nil
	case "range":
		return matches(s.between(a)), nil
	case "bitwise":
		return s.bitwise(a), nil
	case "byteorder":
		size := int(a.number(unix.NFTA_BYTEORDER_SIZE))
		return s.loadOr(a, unix.NFTA_BYTEORDER_DREG, s.source(a, unix.NFTA_BYTEORDER_SREG, unix.NFTA_BYTEORDER_LEN).swap(size)), nil
	case "lookup":
		return s.lookup(a)
	case "dynset":
		return dynset(a), nil
	case "objref":
		return objref(a), nil
	case "nat", "redir":
		return nat(e.name, a), nil
	case "masq":
		return ends(verdictAccept), nil
	case "reject":
		return ends(verdictDrop), nil
	case "match":
		return xtMatch(a), nil
	case "target":
		return xtTarget(a), nil
	case "queue", "synproxy", "tproxy", "fwd":
		return decided(), nil
	default:
		return s.other(), nil
	}
}

// loadOr loads a value, or, without a destination, is the effect of what changes
// the packet or its connection.
func (s *state) loadOr(a attributes, register uint16, value bits) effect {
	if a.has(register) {
		s.store(a.number(register), value)
	}
	return going()
}

// other is the effect of what is not looked into. Into which register it loads is
// not looked at either: nothing that was loaded is known any more.
func (s *state) other() effect {
	s.registers = registers{}
	return opaque()
}

// source is the value that an expression reads.
func (s *state) source(a attributes, register, length uint16) bits {
	return s.load(a.number(register), min(int(a.number(length)), words*wordSize))
}

func (s *state) payload(a attributes) bits {
	offset, n := int(a.number(unix.NFTA_PAYLOAD_OFFSET)), min(int(a.number(unix.NFTA_PAYLOAD_LEN)), words*wordSize)
	switch a.number(unix.NFTA_PAYLOAD_BASE) {
	case unix.NFT_PAYLOAD_NETWORK_HEADER:
		return s.packet.network().part(offset, n)
	case unix.NFT_PAYLOAD_TRANSPORT_HEADER:
		return s.packet.transport().part(offset, n)
	default:
		return unknown(n, Client)
	}
}

// conntrack: a direction that is given may be that of the answers.
func (s *state) conntrack(a attributes) bits {
	if d := a[unix.NFTA_CT_DIRECTION]; len(d) > 0 && d[0] != 0 {
		return unknown(longest, Opaque)
	}
	return s.packet.conntrack(a.number(unix.NFTA_CT_KEY))
}

func (s *state) fib(a attributes) effect {
	value := s.packet.fib(a.number(unix.NFTA_FIB_RESULT), a.number(unix.NFTA_FIB_FLAGS), s.hook)
	return s.loadOr(a, unix.NFTA_FIB_DREG, value)
}

func (s *state) immediate(a attributes) effect {
	if v := a.verdict(unix.NFTA_IMMEDIATE_DATA); v != nil {
		return effect{verdicts: []possible{{*v, 0}}}
	}
	return s.loadOr(a, unix.NFTA_IMMEDIATE_DREG, exact(a.value(unix.NFTA_IMMEDIATE_DATA)...))
}

func (s *state) compare(a attributes) match {
	data := a.value(unix.NFTA_CMP_DATA)
	value := s.load(a.number(unix.NFTA_CMP_SREG), len(data))
	switch a.number(unix.NFTA_CMP_OP) {
	case unix.NFT_CMP_EQ:
		return value.equals(data)
	case unix.NFT_CMP_NEQ:
		return value.equals(data).not()
	case unix.NFT_CMP_LT:
		return value.within(data, nil).not()
	case unix.NFT_CMP_LTE:
		return value.within(nil, data)
	case unix.NFT_CMP_GT:
		return value.within(nil, data).not()
	case unix.NFT_CMP_GTE:
		return value.within(data, nil)
	default:
		return match{why: Opaque}
	}
}

func (s *state) between(a attributes) match {
	from, to := a.value(unix.NFTA_RANGE_FROM_DATA), a.value(unix.NFTA_RANGE_TO_DATA)
	m := s.load(a.number(unix.NFTA_RANGE_SREG), len(from)).within(from, to)
	if a.number(unix.NFTA_RANGE_OP) == unix.NFT_RANGE_NEQ {
		return m.not()
	}
	return m
}

// bitwise is (value & mask) ^ xor; shifts and what takes two registers are not
// looked into.
func (s *state) bitwise(a attributes) effect {
	const op = 6 // NFTA_BITWISE_OP, since Linux 5.6
	value := s.source(a, unix.NFTA_BITWISE_SREG, unix.NFTA_BITWISE_LEN)
	mask, xor := a.value(unix.NFTA_BITWISE_MASK), a.value(unix.NFTA_BITWISE_XOR)
	if a.number(op) != 0 || len(mask) != len(value.value) || len(xor) != len(mask) {
		return s.loadOr(a, unix.NFTA_BITWISE_DREG, unknown(len(value.value), value.why|Opaque))
	}
	out := bits{slices.Clone(value.value), slices.Clone(value.known), value.why}
	for i := range out.value {
		out.known[i] |= ^mask[i]
		out.value[i] = (out.value[i]&mask[i] ^ xor[i]) & out.known[i]
	}
	return s.loadOr(a, unix.NFTA_BITWISE_DREG, out)
}

// nat: only what changes the destination takes the packet from us.
func nat(name string, a attributes) effect {
	const destination = 1 // NFT_NAT_DNAT
	if name == "redir" || a.number(unix.NFTA_NAT_TYPE) == destination {
		return ends(verdictCaught)
	}
	return ends(verdictAccept)
}

// dynset puts the packet into a set. With an expression, such as a rate, it
// matches by that.
func dynset(a attributes) effect {
	const expressions = 11 // NFTA_DYNSET_EXPRESSIONS
	if a.has(unix.NFTA_DYNSET_EXPR) || a.has(expressions) {
		return opaque()
	}
	return going()
}

// objref: a counter, a helper and the like let all pass; rates and quotas don't.
func objref(a attributes) effect {
	const counter, helper, timeout, secmark, expectation = 1, 3, 7, 8, 9 // NFT_OBJECT_…
	switch a.number(unix.NFTA_OBJREF_IMM_TYPE) {
	case counter, helper, timeout, secmark, expectation:
		return going()
	default:
		return opaque()
	}
}

// xtMatch is one of iptables's. A comment is always true.
func xtMatch(a attributes) effect {
	if a.text(unix.NFTA_MATCH_NAME) == "comment" {
		return going()
	}
	return opaque()
}

// xtTarget is one of iptables's.
func xtTarget(a attributes) effect {
	switch a.text(unix.NFTA_TARGET_NAME) {
	case "DNAT", "REDIRECT", "NETMAP":
		return ends(verdictCaught)
	case "REJECT":
		return ends(verdictDrop)
	case "NOTRACK":
		return effect{untracks: true}
	case "CT":
		const notrack = 1 // XT_CT_NOTRACK, of the flags that xt_ct_target_info begins with
		info := a[unix.NFTA_TARGET_INFO]
		return effect{untracks: len(info) >= 2 && binary.NativeEndian.Uint16(info)&notrack != 0}
	case "LOG", "NFLOG", "MARK", "CONNMARK", "CHECKSUM", "TCPMSS", "TRACE", "SECMARK", "CONNSECMARK", "CLASSIFY", "DSCP", "TOS", "TTL", "HL", "SET", "AUDIT":
		return going()
	default:
		return decided()
	}
}

// lookup asks a set, or takes a value or a verdict out of a map.
func (s *state) lookup(a attributes) (effect, error) {
	found, err := s.rules.set(s.table, a.text(unix.NFTA_LOOKUP_SET))
	if err != nil {
		return effect{}, err
	}
	hits := found.find(&s.registers, a.number(unix.NFTA_LOOKUP_SREG))
	m := match{no: len(hits) == 0}
	for _, h := range hits {
		m.why |= h.why
	}
	isMap := a.has(unix.NFTA_LOOKUP_DREG)
	register := a.number(unix.NFTA_LOOKUP_DREG)
	switch {
	case !isMap && a.number(unix.NFTA_LOOKUP_FLAGS)&unix.NFT_LOOKUP_F_INV != 0:
		return matches(m.not()), nil
	case !isMap || m.no:
		return matches(m), nil
	case register == unix.NFT_REG_VERDICT:
		e := effect{}
		for _, h := range hits {
			if h.verdict != nil {
				e.verdicts = append(e.verdicts, possible{*h.verdict, h.why})
			}
		}
		return e, nil
	case m.why == 0:
		s.store(register, exact(hits[0].data...))
	default:
		s.store(register, unknown(len(hits[0].data), m.why))
	}
	return matches(m), nil
}
