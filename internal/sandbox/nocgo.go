// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package sandbox

// cLibraryCalls returns no calls.
func cLibraryCalls() []allowedCall { return nil }
