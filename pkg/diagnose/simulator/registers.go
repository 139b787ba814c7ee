// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulator

import "golang.org/x/sys/unix"

// The kernel has sixteen registers of 32 bits, and four names of its past for
// four of them each (nf_tables_core.c, nft_parse_register).
const (
	words    = unix.NFT_REG32_COUNT
	wordSize = unix.NFT_REG32_SIZE
)

// registers hold what the expressions of one rule have loaded.
type registers struct {
	value, known [words * wordSize]byte
	why          [words]Why
}

// place is where a register begins; false for one that there is not.
func place(register uint32) (int, bool) {
	switch {
	case register >= unix.NFT_REG_1 && register <= unix.NFT_REG_4:
		return int(register-unix.NFT_REG_1) * unix.NFT_REG_SIZE, true
	case register >= unix.NFT_REG32_00 && register < unix.NFT_REG32_00+words:
		return int(register-unix.NFT_REG32_00) * wordSize, true
	default:
		return 0, false
	}
}

// store puts b into a register and those behind it. The kernel fills the last
// word up with zeros.
func (r *registers) store(register uint32, b bits) {
	at, ok := place(register)
	if !ok || at+len(b.value) > len(r.value) {
		return
	}
	copy(r.value[at:], b.value)
	copy(r.known[at:], b.known)
	end := at + len(b.value)
	for ; end%wordSize != 0; end++ {
		r.value[end], r.known[end] = 0, 0xff
	}
	for i := at / wordSize; i < end/wordSize; i++ {
		r.why[i] = b.why
	}
}

// load takes n bytes. What nothing was loaded into is not known.
func (r *registers) load(register uint32, n int) bits {
	at, ok := place(register)
	b := unknown(n, 0)
	if ok && at+n <= len(r.value) {
		copy(b.value, r.value[at:at+n])
		copy(b.known, r.known[at:at+n])
		for i := at / wordSize; i < (at+n+wordSize-1)/wordSize; i++ {
			b.why |= r.why[i]
		}
	}
	if b.why == 0 && !b.whole() {
		b.why = Opaque
	}
	return b
}
