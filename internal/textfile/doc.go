// SPDX-License-Identifier: Apache-2.0

// Package textfile reads and replaces small files as a whole, within a bound, and without
// waiting for the other end of a FIFO. All processes but the exporter link it, and the administrator's tool.
package textfile
