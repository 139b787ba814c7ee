// SPDX-License-Identifier: Apache-2.0

// Package build owns the tests of releases and installation. They run make as a release
// engineer and an administrator do. The programs that make runs are in the packages
// below.
package build
