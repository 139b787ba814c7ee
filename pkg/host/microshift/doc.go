// SPDX-License-Identifier: Apache-2.0

// Package microshift derives from a MicroShift host's configuration what this service needs:
// the node's addresses, the internal address of the API server, which must never be
// redirected, and the addresses of the router. The controller and `check` link it.
//
// It reads config.yaml and config.d as MicroShift does when it starts (its
// pkg/config/files.go), and computes the same values (updateComputedValues in its
// pkg/config/config.go). Parts of the configuration without influence on these values are
// ignored.
package microshift
