// SPDX-License-Identifier: Apache-2.0

// Package route reads the kernel's routes. It sends no packets. The
// controller and `check` link it.
package route
