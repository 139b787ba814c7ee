// SPDX-License-Identifier: Apache-2.0

// Package logbudget owns the limit for repeated journal entries. The challenge log and the
// change log count the entries that it denies, and write one entry about them. The
// controller links it.
package logbudget
