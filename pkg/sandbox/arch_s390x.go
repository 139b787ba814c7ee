// SPDX-License-Identifier: Apache-2.0

package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_S390X

// alsoAllowed are the calls that the others do not have. Packages syscall and unix
// make nearly all calls for sockets by socketcall(2) here. Its arguments are
// behind a pointer, where no filter sees them: on this architecture sockets of
// every family can be made.
func alsoAllowed() []uint32 { return []uint32{unix.SYS_SOCKETCALL} }
