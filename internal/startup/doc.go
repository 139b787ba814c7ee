// SPDX-License-Identifier: Apache-2.0

// Package startup returns the memory that only the start of a process needs. The controller
// and its child processes link it.
package startup
