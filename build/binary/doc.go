// SPDX-License-Identifier: Apache-2.0

// Package binary owns the build information of a release's binaries. It reads the
// platform, the commit and the modules that the Go toolchain recorded, so that an
// image or a bill of materials always matches the binaries.
package binary
