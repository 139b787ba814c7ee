// SPDX-License-Identifier: Apache-2.0

// Package sbom writes the bill of materials of a release in the CycloneDX format: the
// binaries, the modules and the standard library in each of them, and the image with
// its certificates.
//
// All data come from the binaries. It writes no serial number and uses the time of the commit,
// so two builds of one commit give the same file.
package sbom
