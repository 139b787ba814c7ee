// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// attributes are netlink attributes by type. Repeated types, as in a list, are read
// with [forEachAttribute].
type attributes map[uint16][]byte

const (
	attributeHeader = 4      // size of a struct nlattr
	attributeType   = 0x3fff // NLA_TYPE_MASK: without the flags of nested and network order
)

// forEachAttribute calls found for every attribute of b.
func forEachAttribute(b []byte, found func(kind uint16, value []byte)) {
	for len(b) >= attributeHeader {
		size := int(binary.NativeEndian.Uint16(b))
		kind := binary.NativeEndian.Uint16(b[2:]) & attributeType
		if size < attributeHeader || size > len(b) {
			return
		}
		found(kind, b[attributeHeader:size])
		b = b[min(len(b), (size+attributeHeader-1)&^(attributeHeader-1)):]
	}
}

func parseAttributes(b []byte) attributes {
	a := make(attributes)
	forEachAttribute(b, func(kind uint16, value []byte) { a[kind] = value })
	return a
}

// uint32At is a 32-bit number in network byte order, or 0 if the attribute is missing.
func (a attributes) uint32At(kind uint16) uint32 {
	if v := a[kind]; len(v) >= 4 {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (a attributes) has(kind uint16) bool { return a[kind] != nil }

// stringAt is a NUL-terminated string.
func (a attributes) stringAt(kind uint16) string {
	v := a[kind]
	for i, c := range v {
		if c == 0 {
			return string(v[:i])
		}
	}
	return string(v)
}

// dataAt is the plain value of a data attribute.
func (a attributes) dataAt(kind uint16) []byte { return parseAttributes(a[kind])[unix.NFTA_DATA_VALUE] }

// verdict is a verdict code and its target chain.
type verdict struct {
	code  int32
	chain string
}

// verdictAt is the verdict of a data attribute.
func (a attributes) verdictAt(kind uint16) *verdict {
	data := parseAttributes(a[kind])
	if !data.has(unix.NFTA_DATA_VERDICT) {
		return nil
	}
	v := parseAttributes(data[unix.NFTA_DATA_VERDICT])
	return &verdict{int32(v.uint32At(unix.NFTA_VERDICT_CODE)), v.stringAt(unix.NFTA_VERDICT_CHAIN)} //nolint:gosec // signed in the kernel
}

func nativeUint32(n uint32) []byte {
	b := make([]byte, 4)
	binary.NativeEndian.PutUint32(b, n)
	return b
}
