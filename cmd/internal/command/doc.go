// SPDX-License-Identifier: Apache-2.0

// Package command owns the command line of a binary: its verbs, their flags,
// help and messages, the exit codes, and what it says about its own build. The
// host binary links it, so that it may import little.
package command
