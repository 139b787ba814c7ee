// SPDX-License-Identifier: Apache-2.0

// Package verify owns the facts that only a real cluster can settle: the command for each
// of them, the expected output, and the report. It runs no command. Only the
// administrator's tool links it.
package verify
