// SPDX-License-Identifier: Apache-2.0

// Package guest owns a machine with another kernel than this one's: Debian's, in
// QEMU, for tests of what the kernel here was built without. It is a Debian
// bookworm without an init system, all of it in memory, which runs one script and
// is gone.
//
// QEMU interprets every instruction (TCG), for machines that have no KVM to
// offer, and the guest's clock counts these instructions: however slow or busy
// the machine here is, the guest sees none of it, so that no timeout in it fires
// for that reason.
//
// Needs root and qemu-system-x86_64, and mmdebstrap for the first run.
package guest
