// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import "bytes"

// Uncertainty is the reason why a result is not certain; 0 means certain.
type Uncertainty uint8

// The reasons.
const (
	DependsOnClient Uncertainty = 1 << iota // depends on the client and the path of its packets
	NotSimulated                            // depends on an expression that is not simulated
)

// maskedBytes are bytes of which some bits may be unknown.
type maskedBytes struct {
	value       []byte      // 0 where unknown
	known       []byte      // 1 for each known bit
	uncertainty Uncertainty // why the other bits are unknown
}

// knownBytes is a known value.
func knownBytes(value ...byte) maskedBytes {
	return maskedBytes{value: value, known: bytes.Repeat([]byte{0xff}, len(value))}
}

// unknownBytes is n unknown bytes.
func unknownBytes(n int, why Uncertainty) maskedBytes {
	return maskedBytes{make([]byte, n), make([]byte, n), why}
}

// knownUint32 is a 32-bit number in native byte order.
func knownUint32(n uint32) maskedBytes { return knownBytes(nativeUint32(n)...) }

// knownName is a link name as the kernel stores it, padded to n bytes.
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

// maxValue is the largest possible value; the field value is the smallest.
func (b maskedBytes) maxValue() []byte {
	high := make([]byte, len(b.value))
	for i := range high {
		high[i] = b.value[i] | ^b.known[i]
	}
	return high
}

// window is n bytes from offset. Bytes beyond the end are unknown.
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

// match is the result of a comparison: no match, a match if uncertainty is 0, or a
// possible match.
type match struct {
	mismatch    bool
	uncertainty Uncertainty
}

// negate is the opposite result.
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

// inRange reports whether the value lies between two values, inclusive, in the order of
// memcmp. A nil bound is open.
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
