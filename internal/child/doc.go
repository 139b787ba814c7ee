// SPDX-License-Identifier: Apache-2.0

// Package child starts this program again as a child process without capabilities, which
// is connected to its parent. Code that communicates with the network runs in such a
// process. The controller, check and the child processes link it.
package child
