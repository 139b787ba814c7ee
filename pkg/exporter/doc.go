// SPDX-License-Identifier: Apache-2.0

// Package exporter serves the metrics of the service over HTTP. Only the exporter process
// links it, which has no capability and opens no file.
package exporter
