// SPDX-License-Identifier: Apache-2.0

package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// cloneFlags is the index of the argument of clone(2) with the flags.
const cloneFlags = 0

// architectureCalls returns the calls of this architecture only.
func architectureCalls() []allowedCall { return nil }
