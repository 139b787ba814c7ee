// SPDX-License-Identifier: Apache-2.0

//go:build !s390x

package sandbox

// cloneFlags is the index of the argument of clone(2) with the flags.
const cloneFlags = 0

// architectureCalls returns the calls of this architecture only.
func architectureCalls() []allowedCall { return nil }
