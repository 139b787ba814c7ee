// SPDX-License-Identifier: Apache-2.0

// Package nstest runs the tests of a package in a fresh network namespace, and provides
// what tests of several packages need to wait for others. Only tests link it.
package nstest
