// SPDX-License-Identifier: Apache-2.0

// Package soak owns the arithmetic and the picture of long runs: does a resource of the
// service grow?
package soak
