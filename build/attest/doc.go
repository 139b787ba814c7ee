// SPDX-License-Identifier: Apache-2.0

// Package attest writes the in-toto attestations of a release: its SLSA provenance and its
// bill of materials, each for all files and for the image.
//
// All data come from SHA256SUMS and the bill of materials, so two builds of one commit give
// the same statements. Only the signatures differ, because ECDSA is randomized.
package attest
