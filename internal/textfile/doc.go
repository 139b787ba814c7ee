// SPDX-License-Identifier: Apache-2.0

// Package textfile reads and replaces small files as a whole, within a bound of size and time,
// and rejects other files, such as a FIFO or a file of /proc. All processes but the exporter
// link it, and so does the administrator's tool.
package textfile
