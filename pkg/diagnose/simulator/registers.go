// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import "golang.org/x/sys/unix"

// The kernel has sixteen registers of 32 bits, and four names of its past for
// four of them each (nf_tables_core.c, nft_parse_register).
const (
	registerCount = unix.NFT_REG32_COUNT
	registerSize  = unix.NFT_REG32_SIZE
)

// registers hold what the expressions of one rule have loaded.
type registers struct {
	value, known [registerCount * registerSize]byte
	uncertainty  [registerCount]Uncertainty
}

// registerOffset is where a register begins; false for one that there is not.
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

// store puts b into a register and those behind it. The kernel fills the last
// word up with zeros.
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

// load takes n bytes. What nothing was loaded into is not known.
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
