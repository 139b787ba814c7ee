// SPDX-License-Identifier: Apache-2.0

// Package registry owns a container registry on a node of the lab: TLS under a
// CA of its own, one account that may pull and another that may push, and ways
// to be away. What is asked of it by others than its owner is counted.
package registry
