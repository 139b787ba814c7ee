// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import "golang.org/x/sys/unix"

// The kernel has sixteen 32-bit registers, and four older names for groups of four
// (nf_tables_core.c, nft_parse_register).
const (
	registerCount = unix.NFT_REG32_COUNT
	registerSize  = unix.NFT_REG32_SIZE
)

// registers hold the values that the expressions of one rule loaded.
type registers struct {
	value, known [registerCount * registerSize]byte
	uncertainty  [registerCount]Uncertainty
}

// registerOffset is the offset of a register; false for an invalid register.
func registerOffset(register uint32) (int, bool) {
	switch {
	case register >= unix.NFT_REG_1 && register <= unix.NFT_REG_4:
		return int(register-unix.NFT_REG_1) * unix.NFT_REG_SIZE, true
	case register >= unix.NFT_REG32_00 && register < unix.NFT_REG32_00+registerCount:
		return int(register-unix.NFT_REG32_00) * registerSize, true
	default:
		return 0, false
	}
}

// store writes b to a register and the following ones. The kernel pads the last word
// with zeros.
func (r *registers) store(register uint32, b maskedBytes) {
	at, ok := registerOffset(register)
	if !ok || at+len(b.value) > len(r.value) {
		return
	}
	copy(r.value[at:], b.value)
	copy(r.known[at:], b.known)
	end := at + len(b.value)
	for ; end%registerSize != 0; end++ {
		r.value[end], r.known[end] = 0, 0xff
	}
	for i := at / registerSize; i < end/registerSize; i++ {
		r.uncertainty[i] = b.uncertainty
	}
}

// load reads n bytes. Registers without a loaded value are unknown.
func (r *registers) load(register uint32, n int) maskedBytes {
	at, ok := registerOffset(register)
	b := unknownBytes(n, 0)
	if ok && at+n <= len(r.value) {
		copy(b.value, r.value[at:at+n])
		copy(b.known, r.known[at:at+n])
		for i := at / registerSize; i < (at+n+registerSize-1)/registerSize; i++ {
			b.uncertainty |= r.uncertainty[i]
		}
	}
	if b.uncertainty == 0 && !b.fullyKnown() {
		b.uncertainty = NotSimulated
	}
	return b
}
