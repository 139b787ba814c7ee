// SPDX-License-Identifier: Apache-2.0

// Package image builds the container image that delivers the host binary: the binary
// and CA certificates, for several platforms.
//
// The image is not run. The installer copies the binary from it, and so does a layered
// operating system image. It is built without a daemon and without a base image. All
// its content comes from the binaries, the commit's time and a pinned module, so two
// builds of one commit give the same digest.
package image
