// SPDX-License-Identifier: Apache-2.0

// Package cli owns what the command lines of both binaries share: the root command,
// help, flag values, messages, exit codes, documents, the version and completion. Both
// binaries link it.
package cli
