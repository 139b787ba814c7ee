// SPDX-License-Identifier: Apache-2.0

// Package loop owns the event loops of the proxy: one thread and one epoll instance
// each, nonblocking sockets and coarse deadlines. Only pkg/proxy/server links it.
//
// The raw system calls of the proxy are here and nowhere else. They are raw so that the
// scheduler does not see them: its monitor thread looks for long calls, as often as every
// 20 µs under load, and took a tenth of the proxy's time. Garbage collection stops all
// threads: its signal ends a raw wait for events, and no other raw call blocks. The scheduler
// sees waits of more than a few milliseconds.
package loop
