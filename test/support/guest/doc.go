// SPDX-License-Identifier: Apache-2.0

// Package guest owns a virtual machine with Debian's kernel in QEMU, for tests that need
// kernel features that this machine lacks, and for arm64. The guest is a Debian bookworm in
// memory without an init system. It runs one script and ends.
//
// QEMU interprets every instruction (TCG), so no KVM is necessary. The guest's clock counts
// instructions: a slow or busy machine does not cause timeouts in the guest.
//
// It needs root, QEMU for the guest's architecture, and mmdebstrap for the first run.
// Debian packages of another architecture are unpacked without running their scripts.
// Nothing is registered with this machine's dpkg or binfmt_misc.
package guest
