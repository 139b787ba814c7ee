// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import "bytes"

// Why says on what it rests whether something happens; 0 is certainty.
type Why uint8

// The reasons.
const (
	Client Why = 1 << iota // on who the client is, and the way by which it comes
	Opaque                 // on something that is not looked into
)

// bits are bytes of which some bits may not be known.
type bits struct {
	value []byte // 0 where it is not known
	known []byte // 1 for each bit that is
	why   Why    // why the others are not
}

// exact is a value that is known.
func exact(value ...byte) bits {
	return bits{value: value, known: bytes.Repeat([]byte{0xff}, len(value))}
}

// unknown is n bytes of which nothing is known.
func unknown(n int, why Why) bits { return bits{make([]byte, n), make([]byte, n), why} }

// number is a number of 32 bits in the host's order.
func number(n uint32) bits { return exact(native(n)...) }

// padded is a text as the kernel keeps names of links, in n bytes.
func padded(text string, n int) bits {
	value := make([]byte, n)
	copy(value, text)
	return exact(value...)
}

// whole reports whether every bit is known.
func (b bits) whole() bool {
	for _, k := range b.known {
		if k != 0xff {
			return false
		}
	}
	return true
}

// highest is the largest value that it may have; value is the smallest one.
func (b bits) highest() []byte {
	high := make([]byte, len(b.value))
	for i := range high {
		high[i] = b.value[i] | ^b.known[i]
	}
	return high
}

// part is n bytes from offset; what is beyond the end is not known.
func (b bits) part(offset, n int) bits {
	p := unknown(n, b.why)
	if offset < len(b.value) {
		copy(p.value, b.value[offset:])
		copy(p.known, b.known[offset:])
	}
	if !p.whole() && p.why == 0 {
		p.why = Opaque
	}
	return p
}

// match is whether something holds: no, or yes if why is 0, or possibly.
type match struct {
	no  bool
	why Why
}

// not is the opposite.
func (m match) not() match {
	if m.why != 0 {
		return m
	}
	return match{no: !m.no}
}

// equals compares with data of the same length.
func (b bits) equals(data []byte) match {
	n := min(len(data), len(b.value))
	all := true
	for i := range n {
		if (b.value[i]^data[i])&b.known[i] != 0 {
			return match{no: true}
		}
		all = all && b.known[i] == 0xff
	}
	if !all {
		return match{why: b.why}
	}
	return match{}
}

// within tells whether it lies between two values, both included, as memcmp
// orders them. A nil bound is none.
func (b bits) within(from, to []byte) match {
	low, high := b.value, b.highest()
	switch {
	case from != nil && bytes.Compare(high, from) < 0, to != nil && bytes.Compare(low, to) > 0:
		return match{no: true}
	case (from == nil || bytes.Compare(low, from) >= 0) && (to == nil || bytes.Compare(high, to) <= 0):
		return match{}
	default:
		return match{why: b.why}
	}
}
