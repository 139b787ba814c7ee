// SPDX-License-Identifier: Apache-2.0

// Package filewatch owns the signal that a file of a set may have changed. The
// controller links it.
//
// It watches directories, not files. A file can be replaced by rename, a
// ConfigMap-style mount replaces a "..data" link, and so can any other link in the
// path. A missing file can be created later, together with its directory. The signal
// does not contain what changed: the receiver reads the files again and compares.
// Signals can be lost (inotify limits, network file systems), so receivers also read
// the files periodically.
package filewatch
