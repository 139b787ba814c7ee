// SPDX-License-Identifier: Apache-2.0

// Package asyncread owns reads of files that nobody waits for: a file system whose server does
// not respond can block a read without limit. The controller links it.
package asyncread
