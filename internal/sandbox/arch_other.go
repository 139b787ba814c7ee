// SPDX-License-Identifier: Apache-2.0

//go:build !s390x

package sandbox

// architectureCalls returns the calls of this architecture only.
func architectureCalls() []allowedCall { return nil }
