// SPDX-License-Identifier: Apache-2.0

// Package microshift owns what a MicroShift host's configuration means to this
// service: the node's addresses, the internal address of the API server, which
// must never be touched, and where the router listens.
//
// It reads config.yaml and config.d as MicroShift does when it starts
// (pkg/config/files.go there), and computes what that computes
// (updateComputedValues in pkg/config/config.go). Parts of the configuration that
// tell nothing of this are passed over.
package microshift
