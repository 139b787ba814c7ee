// SPDX-License-Identifier: Apache-2.0

// Package binary owns what a release knows about its binaries. It takes it from
// the binaries themselves, where the Go toolchain has recorded the platform,
// the commit and the modules, so that an image or an SBOM cannot say anything
// else than what was built.
package binary
