// SPDX-License-Identifier: Apache-2.0

// Package spelling finds the name that a misspelt word most likely means. The command lines and the
// reader of the configuration link it.
package spelling
