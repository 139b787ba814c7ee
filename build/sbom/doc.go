// SPDX-License-Identifier: Apache-2.0

// Package sbom owns the bill of materials of a release, in CycloneDX's form: the
// binaries, the modules that the toolchain linked into each, the standard
// library, and the image with its certificates.
//
// It comes from the binaries alone, has no serial number and no clock in it
// (its time is the commit's), so that two builds of one commit give one file.
package sbom
