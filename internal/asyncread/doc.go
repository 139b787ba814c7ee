// SPDX-License-Identifier: Apache-2.0

// Package asyncread owns reads of files that nobody waits for: a file system whose server does not
// respond blocks a read for as long as it likes. The controller links it.
package asyncread
