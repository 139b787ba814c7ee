// SPDX-License-Identifier: Apache-2.0

// Package guest owns a virtual machine with Debian's kernel in QEMU, for tests of arm64 or of
// kernel features that this machine lacks. The guest is a Debian bookworm in memory without an init
// system. It runs one script and ends.
//
// QEMU interprets every instruction (TCG) without KVM. The guest's clock counts instructions, so a
// slow or busy machine does not cause timeouts in the guest.
//
// It needs root, QEMU for the guest's architecture, and mmdebstrap for the first run. It unpacks
// packages of another architecture without running their scripts, and registers nothing with this
// machine's dpkg or binfmt_misc.
package guest
