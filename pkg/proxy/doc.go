// SPDX-License-Identifier: Apache-2.0

// Package proxy owns the proxy process: it executes the commands of the controller, which sends
// it listening sockets, and reports events. Only the proxy links it. The process runs without
// capabilities, opens no file, and ends with the controller.
package proxy
