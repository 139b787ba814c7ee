// SPDX-License-Identifier: Apache-2.0

package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// cloneFlags is the argument of clone(2) that has the flags.
const cloneFlags = 0

// architectureCalls are the calls that the others do not have.
func architectureCalls() []allowedCall { return nil }
