// SPDX-License-Identifier: Apache-2.0

// Package delivery tests the installation methods of docs/install. Their commands run as
// written on three booted control-plane hosts, from the first installation to the removal.
package delivery
