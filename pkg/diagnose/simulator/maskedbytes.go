// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import "bytes"

// Uncertainty says on what it rests whether something happens; 0 is certainty.
type Uncertainty uint8

// The reasons.
const (
	DependsOnClient Uncertainty = 1 << iota // on who the client is, and the way by which it comes
	NotSimulated                            // on something that is not looked into
)

// maskedBytes are bytes of which some bits may not be known.
type maskedBytes struct {
	value       []byte      // 0 where it is not known
	known       []byte      // 1 for each bit that is
	uncertainty Uncertainty // why the others are not
}

// knownBytes is a value that is known.
func knownBytes(value ...byte) maskedBytes {
	return maskedBytes{value: value, known: bytes.Repeat([]byte{0xff}, len(value))}
}

// unknownBytes is n bytes of which nothing is known.
func unknownBytes(n int, why Uncertainty) maskedBytes {
	return maskedBytes{make([]byte, n), make([]byte, n), why}
}

// knownUint32 is a number of 32 bits in the host's order.
func knownUint32(n uint32) maskedBytes { return knownBytes(nativeUint32(n)...) }

// knownName is a text as the kernel keeps names of links, in n bytes.
func knownName(text string, n int) maskedBytes {
	value := make([]byte, n)
	copy(value, text)
	return knownBytes(value...)
}

// fullyKnown reports whether every bit is known.
func (b maskedBytes) fullyKnown() bool {
	for _, k := range b.known {
		if k != 0xff {
			return false
		}
	}
	return true
}

// maxValue is the largest value that it may have; value is the smallest one.
func (b maskedBytes) maxValue() []byte {
	high := make([]byte, len(b.value))
	for i := range high {
		high[i] = b.value[i] | ^b.known[i]
	}
	return high
}

// window is n bytes from offset; what is beyond the end is not known.
func (b maskedBytes) window(offset, n int) maskedBytes {
	p := unknownBytes(n, b.uncertainty)
	if offset < len(b.value) {
		copy(p.value, b.value[offset:])
		copy(p.known, b.known[offset:])
	}
	if !p.fullyKnown() && p.uncertainty == 0 {
		p.uncertainty = NotSimulated
	}
	return p
}

// match is whether something holds: no, or yes if why is 0, or possibly.
type match struct {
	mismatch    bool
	uncertainty Uncertainty
}

// negate is the opposite.
func (m match) negate() match {
	if m.uncertainty != 0 {
		return m
	}
	return match{mismatch: !m.mismatch}
}

// equals compares with data of the same length.
func (b maskedBytes) equals(data []byte) match {
	n := min(len(data), len(b.value))
	all := true
	for i := range n {
		if (b.value[i]^data[i])&b.known[i] != 0 {
			return match{mismatch: true}
		}
		all = all && b.known[i] == 0xff
	}
	if !all {
		return match{uncertainty: b.uncertainty}
	}
	return match{}
}

// inRange tells whether it lies between two values, both included, as memcmp
// orders them. A nil bound is none.
func (b maskedBytes) inRange(from, to []byte) match {
	low, high := b.value, b.maxValue()
	switch {
	case from != nil && bytes.Compare(high, from) < 0, to != nil && bytes.Compare(low, to) > 0:
		return match{mismatch: true}
	case (from == nil || bytes.Compare(low, from) >= 0) && (to == nil || bytes.Compare(high, to) <= 0):
		return match{}
	default:
		return match{uncertainty: b.uncertainty}
	}
}
