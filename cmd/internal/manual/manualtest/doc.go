// SPDX-License-Identifier: Apache-2.0

// Package manualtest tests the documents that package manual generates. The tests of the
// two programs link it.
package manualtest
