// SPDX-License-Identifier: Apache-2.0

// Package network finds the answers to package probe's questions. It runs in the
// child process, which has no capability and opens no file.
package network
