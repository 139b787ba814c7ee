// SPDX-License-Identifier: Apache-2.0

// Package loop owns the event loops of the proxy: one thread and one epoll instance
// each, nonblocking sockets and coarse deadlines. Only pkg/proxy/server links it.
//
// The raw system calls of the proxy are here and nowhere else. They are raw so that the
// scheduler does not see them: its monitor thread looks for long calls, as often as every
// 20 µs under load, and took a tenth of the proxy's time. Only a call that cannot block may
// be raw: garbage collection stops all threads first, and would wait for it. A loop
// without work therefore waits in a call that the scheduler knows.
package loop
