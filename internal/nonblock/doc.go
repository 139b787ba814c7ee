// SPDX-License-Identifier: Apache-2.0

// Package nonblock makes system calls on nonblocking sockets, and bounds the kernel's
// buffers of a connection. The proxy links it.
package nonblock
