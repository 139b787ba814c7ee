// SPDX-License-Identifier: Apache-2.0

// Package sockopt bounds the kernel's buffers of a connection. The controller and the
// proxy link it.
package sockopt
