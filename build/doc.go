// SPDX-License-Identifier: Apache-2.0

// Package build owns the tests of how a release is made and installed: they run
// make as a release engineer and an admin do. What make calls is in the packages
// below.
package build
