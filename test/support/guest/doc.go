// SPDX-License-Identifier: Apache-2.0

// Package guest owns a machine with another kernel than this one's: Debian's, in
// QEMU, for tests of what the kernel here was built without, and of arm64. It is a
// Debian bookworm without an init system, all of it in memory, which runs one script
// and is gone.
//
// QEMU interprets every instruction (TCG), for machines that have no KVM to
// offer, and the guest's clock counts these instructions: however slow or busy
// the machine here is, the guest sees none of it, so that no timeout in it fires
// for that reason.
//
// Needs root and QEMU for the guest's architecture, and mmdebstrap for the first run.
// Debian's packages of another architecture are unpacked and not run here, so nothing
// is registered with this machine's dpkg or binfmt_misc.
package guest
