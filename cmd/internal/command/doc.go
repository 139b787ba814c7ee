// SPDX-License-Identifier: Apache-2.0

// Package command owns the command line of a binary: commands, flags, help, messages,
// exit codes and the version. Both binaries link it, so it imports only the standard
// library and golang.org/x/sys.
package command
