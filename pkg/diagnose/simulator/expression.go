// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// evaluator is the context in which a rule is evaluated.
type evaluator struct {
	registers

	packet  Packet
	hook    Hook
	table   Table
	ruleset Ruleset
}

// effect is the effect of an expression. It matches or not, and may end the rule with
// one of several verdicts.
type effect struct {
	match

	verdicts []possibleVerdict
	notrack  bool // the packet bypasses connection tracking, and the rule continues
}

// possibleVerdict is a verdict and the reason for its uncertainty.
type possibleVerdict struct {
	verdict

	uncertainty Uncertainty
}

// Verdict codes: those of the kernel (NF_… and NFT_…) are -5 to 5, verdictTranslated is
// our own.
const (
	verdictDrop       = 0 // NF_DROP
	verdictAccept     = 1 // NF_ACCEPT
	verdictQueue      = 3 // NF_QUEUE, in the lower 16 bits
	verdictTranslated = 100
)

func matchEffect(m match) effect { return effect{match: m} }

// noEffect is the effect of an expression that never changes the packet's path.
func noEffect() effect { return effect{} }

func verdictEffect(code int32) effect {
	return effect{verdicts: []possibleVerdict{{verdict{code, ""}, 0}}}
}

// acceptOrDrop is the effect of an expression whose decision is made elsewhere.
func acceptOrDrop() effect {
	return effect{verdicts: []possibleVerdict{{verdict{verdictDrop, ""}, NotSimulated}, {verdict{verdictAccept, ""}, NotSimulated}}}
}

// notSimulatedEffect is the effect of an expression that is not simulated.
func notSimulatedEffect() effect { return matchEffect(match{uncertainty: NotSimulated}) }

// evaluate evaluates one expression (net/netfilter/nft_*.c).
func (s *evaluator) evaluate(e expression) (effect, error) {
	a := parseAttributes(e.data)
	switch e.name {
	case "counter", "log", "secmark", "last", "dup":
		return noEffect(), nil
	case "notrack":
		return effect{notrack: true}, nil
	case "meta":
		return s.loadIfDestination(a, unix.NFTA_META_DREG, s.packet.meta(a.uint32At(unix.NFTA_META_KEY), s.hook)), nil
	case "payload":
		return s.loadIfDestination(a, unix.NFTA_PAYLOAD_DREG, s.payload(a)), nil
	case "ct":
		return s.loadIfDestination(a, unix.NFTA_CT_DREG, s.conntrack(a)), nil
	case "fib":
		return s.fib(a), nil
	case "immediate":
		return s.immediate(a), nil
	case "cmp":
		return matchEffect(s.compare(a)), nil
	case "range":
		return matchEffect(s.compareRange(a)), nil
	case "bitwise":
		return s.bitwise(a), nil
	case "byteorder":
		size := int(a.uint32At(unix.NFTA_BYTEORDER_SIZE))
		return s.loadIfDestination(a, unix.NFTA_BYTEORDER_DREG, s.sourceValue(a, unix.NFTA_BYTEORDER_SREG, unix.NFTA_BYTEORDER_LEN).swapBytes(size)), nil
	case "lookup":
		return s.lookup(a)
	case "dynset":
		return dynsetEffect(a), nil
	case "objref":
		return objrefEffect(a), nil
	case "nat", "redir":
		return natEffect(e.name, a), nil
	case "masq":
		return verdictEffect(verdictAccept), nil
	case "reject":
		return verdictEffect(verdictDrop), nil
	case "match":
		return xtMatchEffect(a), nil
	case "target":
		return xtTargetEffect(a), nil
	case "queue", "synproxy", "tproxy", "fwd":
		return acceptOrDrop(), nil
	default:
		return s.unknownExpression(), nil
	}
}

// loadIfDestination loads a value into the destination register. An expression without
// one changes the packet or its connection.
func (s *evaluator) loadIfDestination(a attributes, register uint16, value maskedBytes) effect {
	if a.has(register) {
		s.store(a.uint32At(register), value)
	}
	return noEffect()
}

// unknownExpression is the effect of an unknown expression. Its destination register is
// unknown too, so all loaded values are dropped.
func (s *evaluator) unknownExpression() effect {
	s.registers = registers{}
	return notSimulatedEffect()
}

// sourceValue is the value that an expression reads.
func (s *evaluator) sourceValue(a attributes, register, length uint16) maskedBytes {
	return s.load(a.uint32At(register), min(int(a.uint32At(length)), registerCount*registerSize))
}

func (s *evaluator) payload(a attributes) maskedBytes {
	offset, n := int(a.uint32At(unix.NFTA_PAYLOAD_OFFSET)), min(int(a.uint32At(unix.NFTA_PAYLOAD_LEN)), registerCount*registerSize)
	switch a.uint32At(unix.NFTA_PAYLOAD_BASE) {
	case unix.NFT_PAYLOAD_NETWORK_HEADER:
		return s.packet.networkHeader().window(offset, n)
	case unix.NFT_PAYLOAD_TRANSPORT_HEADER:
		return s.packet.transportHeader().window(offset, n)
	default:
		return unknownBytes(n, DependsOnClient)
	}
}

// conntrack loads a conntrack key. A direction in the expression may be that of
// replies.
func (s *evaluator) conntrack(a attributes) maskedBytes {
	if d := a[unix.NFTA_CT_DIRECTION]; len(d) > 0 && d[0] != 0 {
		return unknownBytes(maxLoad, NotSimulated)
	}
	return s.packet.conntrack(a.uint32At(unix.NFTA_CT_KEY))
}

func (s *evaluator) fib(a attributes) effect {
	value := s.packet.fib(a.uint32At(unix.NFTA_FIB_RESULT), a.uint32At(unix.NFTA_FIB_FLAGS), s.hook)
	return s.loadIfDestination(a, unix.NFTA_FIB_DREG, value)
}

func (s *evaluator) immediate(a attributes) effect {
	if v := a.verdictAt(unix.NFTA_IMMEDIATE_DATA); v != nil {
		return effect{verdicts: []possibleVerdict{{*v, 0}}}
	}
	return s.loadIfDestination(a, unix.NFTA_IMMEDIATE_DREG, knownBytes(a.dataAt(unix.NFTA_IMMEDIATE_DATA)...))
}

func (s *evaluator) compare(a attributes) match {
	data := a.dataAt(unix.NFTA_CMP_DATA)
	value := s.load(a.uint32At(unix.NFTA_CMP_SREG), len(data))
	switch a.uint32At(unix.NFTA_CMP_OP) {
	case unix.NFT_CMP_EQ:
		return value.equals(data)
	case unix.NFT_CMP_NEQ:
		return value.equals(data).negate()
	case unix.NFT_CMP_LT:
		return value.inRange(data, nil).negate()
	case unix.NFT_CMP_LTE:
		return value.inRange(nil, data)
	case unix.NFT_CMP_GT:
		return value.inRange(nil, data).negate()
	case unix.NFT_CMP_GTE:
		return value.inRange(data, nil)
	default:
		return match{uncertainty: NotSimulated}
	}
}

func (s *evaluator) compareRange(a attributes) match {
	from, to := a.dataAt(unix.NFTA_RANGE_FROM_DATA), a.dataAt(unix.NFTA_RANGE_TO_DATA)
	m := s.load(a.uint32At(unix.NFTA_RANGE_SREG), len(from)).inRange(from, to)
	if a.uint32At(unix.NFTA_RANGE_OP) == unix.NFT_RANGE_NEQ {
		return m.negate()
	}
	return m
}

// bitwise is (value & mask) ^ xor. Shifts and operations on two registers are not
// simulated.
func (s *evaluator) bitwise(a attributes) effect {
	const op = 6 // NFTA_BITWISE_OP, since Linux 5.6
	value := s.sourceValue(a, unix.NFTA_BITWISE_SREG, unix.NFTA_BITWISE_LEN)
	mask, xor := a.dataAt(unix.NFTA_BITWISE_MASK), a.dataAt(unix.NFTA_BITWISE_XOR)
	if a.uint32At(op) != 0 || len(mask) != len(value.value) || len(xor) != len(mask) {
		return s.loadIfDestination(a, unix.NFTA_BITWISE_DREG, unknownBytes(len(value.value), value.uncertainty|NotSimulated))
	}
	out := maskedBytes{slices.Clone(value.value), slices.Clone(value.known), value.uncertainty}
	for i := range out.value {
		out.known[i] |= ^mask[i]
		out.value[i] = (out.value[i]&mask[i] ^ xor[i]) & out.known[i]
	}
	return s.loadIfDestination(a, unix.NFTA_BITWISE_DREG, out)
}

// natEffect is the effect of a nat statement. Only a changed destination keeps the
// packet from the service.
func natEffect(name string, a attributes) effect {
	const destination = 1 // NFT_NAT_DNAT
	if name == "redir" || a.uint32At(unix.NFTA_NAT_TYPE) == destination {
		return verdictEffect(verdictTranslated)
	}
	return verdictEffect(verdictAccept)
}

// dynsetEffect is the effect of adding the packet to a set. With an expression, such as
// a rate, that expression decides the match.
func dynsetEffect(a attributes) effect {
	const expressions = 11 // NFTA_DYNSET_EXPRESSIONS
	if a.has(unix.NFTA_DYNSET_EXPR) || a.has(expressions) {
		return notSimulatedEffect()
	}
	return noEffect()
}

// objrefEffect is the effect of a stateful object. Counters and helpers pass every
// packet; rates and quotas do not.
func objrefEffect(a attributes) effect {
	const counter, helper, timeout, secmark, expectation = 1, 3, 7, 8, 9 // NFT_OBJECT_…
	switch a.uint32At(unix.NFTA_OBJREF_IMM_TYPE) {
	case counter, helper, timeout, secmark, expectation:
		return noEffect()
	default:
		return notSimulatedEffect()
	}
}

// xtMatchEffect is the effect of an iptables match. A comment always matches.
func xtMatchEffect(a attributes) effect {
	if a.stringAt(unix.NFTA_MATCH_NAME) == "comment" {
		return noEffect()
	}
	return notSimulatedEffect()
}

// xtTargetEffect is the effect of an iptables target.
func xtTargetEffect(a attributes) effect {
	switch a.stringAt(unix.NFTA_TARGET_NAME) {
	case "DNAT", "REDIRECT", "NETMAP":
		return verdictEffect(verdictTranslated)
	case "REJECT":
		return verdictEffect(verdictDrop)
	case "NOTRACK":
		return effect{notrack: true}
	case "CT":
		const notrack = 1 // XT_CT_NOTRACK in the flags at the start of xt_ct_target_info
		info := a[unix.NFTA_TARGET_INFO]
		return effect{notrack: len(info) >= 2 && binary.NativeEndian.Uint16(info)&notrack != 0}
	case "LOG", "NFLOG", "MARK", "CONNMARK", "CHECKSUM", "TCPMSS", "TRACE", "SECMARK", "CONNSECMARK", "CLASSIFY", "DSCP", "TOS", "TTL", "HL", "SET", "AUDIT":
		return noEffect()
	default:
		return acceptOrDrop()
	}
}

// lookup searches a set, or reads a value or a verdict from a map.
func (s *evaluator) lookup(a attributes) (effect, error) {
	found, err := s.ruleset.namedSet(s.table, a.stringAt(unix.NFTA_LOOKUP_SET))
	if err != nil {
		return effect{}, err
	}
	hits := found.lookup(&s.registers, a.uint32At(unix.NFTA_LOOKUP_SREG))
	m := match{mismatch: len(hits) == 0}
	for _, h := range hits {
		m.uncertainty |= h.uncertainty
	}
	isMap := a.has(unix.NFTA_LOOKUP_DREG)
	register := a.uint32At(unix.NFTA_LOOKUP_DREG)
	switch {
	case !isMap && a.uint32At(unix.NFTA_LOOKUP_FLAGS)&unix.NFT_LOOKUP_F_INV != 0:
		return matchEffect(m.negate()), nil
	case !isMap || m.mismatch:
		return matchEffect(m), nil
	case register == unix.NFT_REG_VERDICT:
		e := effect{}
		for _, h := range hits {
			if h.verdict != nil {
				e.verdicts = append(e.verdicts, possibleVerdict{*h.verdict, h.uncertainty})
			}
		}
		return e, nil
	case m.uncertainty == 0:
		s.store(register, knownBytes(hits[0].data...))
	default:
		s.store(register, unknownBytes(len(hits[0].data), m.uncertainty))
	}
	return matchEffect(m), nil
}
