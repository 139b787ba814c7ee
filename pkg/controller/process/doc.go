// SPDX-License-Identifier: Apache-2.0

// Package process runs the proxy process and the exporter process, and replaces each one that
// ends. It owns the listening sockets, which outlive a proxy process and are handed over to the
// next service process. The controller links it.
package process
