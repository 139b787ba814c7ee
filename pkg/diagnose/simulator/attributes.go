// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// attributes are netlink attributes by their type. A type that comes twice, as in
// a list, is read with each.
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

// knownUint32 is a number of 32 bits; the kernel sends them in network order. It is 0
// when it is not there.
func (a attributes) uint32At(kind uint16) uint32 {
	if v := a[kind]; len(v) >= 4 {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (a attributes) has(kind uint16) bool { return a[kind] != nil }

// stringAt is a string, which ends with a NUL.
func (a attributes) stringAt(kind uint16) string {
	v := a[kind]
	for i, c := range v {
		if c == 0 {
			return string(v[:i])
		}
	}
	return string(v)
}

// dataAt is the plain data of an attribute that holds data.
func (a attributes) dataAt(kind uint16) []byte { return parseAttributes(a[kind])[unix.NFTA_DATA_VALUE] }

// verdict is a verdict, and the chain that it goes to.
type verdict struct {
	code  int32
	chain string
}

// verdictAt is the verdict of an attribute that holds data.
func (a attributes) verdictAt(kind uint16) *verdict {
	data := parseAttributes(a[kind])
	if !data.has(unix.NFTA_DATA_VERDICT) {
		return nil
	}
	v := parseAttributes(data[unix.NFTA_DATA_VERDICT])
	return &verdict{int32(v.uint32At(unix.NFTA_VERDICT_CODE)), v.stringAt(unix.NFTA_VERDICT_CHAIN)} //nolint:gosec // it is signed there
}

func nativeUint32(n uint32) []byte {
	b := make([]byte, 4)
	binary.NativeEndian.PutUint32(b, n)
	return b
}
