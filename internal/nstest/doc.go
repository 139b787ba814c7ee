// SPDX-License-Identifier: Apache-2.0

// Package nstest runs the tests of a package in a fresh network namespace, and helps the tests
// of several packages to wait for events. Only tests link it.
package nstest
