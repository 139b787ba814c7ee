// SPDX-License-Identifier: Apache-2.0

// Package image owns the container image that carries the host binary to the
// hosts: the binary and CA certificates, for several platforms, and nothing
// else.
//
// The image is a parcel. The installer takes the binary out of it, and a layered
// image copies it; nothing but its own files is needed for either. It is made
// without a daemon and without a base image, and everything in it comes from
// the binaries, the commit's time and a pinned module: two builds of one commit
// give one digest.
package image
