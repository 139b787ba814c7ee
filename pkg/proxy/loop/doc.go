// SPDX-License-Identifier: Apache-2.0

// Package loop owns the event loops of the proxy: one thread and one epoll instance
// each, nonblocking sockets and coarse deadlines. Only pkg/proxy/server links it.
//
// The raw system calls of the proxy are here and nowhere else. They are raw so that the
// scheduler does not see them: its monitor thread looks for long calls, as often as every
// 20 µs under load, and took a tenth of the proxy's time. Garbage collection stops all
// threads, and would wait for a raw call. So only a call that does not block may be raw, or
// one that waits for a millisecond at most. The scheduler sees longer waits.
package loop
