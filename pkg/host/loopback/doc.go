// SPDX-License-Identifier: Apache-2.0

// Package loopback owns the internal address of MicroShift's API server where this
// service keeps it on lo for MicroShift: it puts it there when nobody else has it,
// with a mark that the kernel keeps, and takes away nothing but what has that mark.
package loopback
