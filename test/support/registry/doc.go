// SPDX-License-Identifier: Apache-2.0

// Package registry owns a container registry on a node of the lab, with TLS under its own
// CA, one account for pulls and one for pushes, and simulated outages. It counts the
// requests of others than its owner.
package registry
