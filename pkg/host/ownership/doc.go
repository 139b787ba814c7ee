// SPDX-License-Identifier: Apache-2.0

// Package ownership decides which API VIPs this host holds: a pure function of the VIPs and the
// host's addresses. The controller and check link it.
package ownership
