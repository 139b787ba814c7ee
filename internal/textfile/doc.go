// SPDX-License-Identifier: Apache-2.0

// Package textfile reads and replaces small files as a whole, within a bound of size and time, and
// rejects what is no file with text, such as a FIFO or a file of /proc. All processes but the exporter
// link it, and the administrator's tool.
package textfile
