// SPDX-License-Identifier: Apache-2.0

// Package loopback manages the internal address of MicroShift's API server on lo. It adds the
// address if it is not in use, with a marker in the kernel, and removes only addresses with
// that marker. The controller, `check` and `cleanup` link it.
package loopback
