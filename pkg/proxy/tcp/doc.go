// SPDX-License-Identifier: Apache-2.0

// Package tcp owns the listening sockets and client connections of the proxy;
// pkg/proxy/server and the proxy process link it. Package net makes at least five
// setsockopt(2) calls for each accepted connection, for example for keep-alive
// probes. This package sets the common options once on the listener, and the kernel
// copies them to each connection.
package tcp
