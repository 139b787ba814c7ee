// SPDX-License-Identifier: Apache-2.0

// Package proxy is the process that faces the network: it obeys the keeper,
// which gives it listening sockets, and tells it what the gate has seen. It has
// no capability, opens no file, and ends with the keeper.
package proxy
