// SPDX-License-Identifier: Apache-2.0

// Package loop owns the event loops of the proxy: one thread and one epoll instance
// each, nonblocking sockets and coarse deadlines. Only pkg/proxy/server links it.
//
// The raw system calls of the proxy are here and nowhere else. They are raw so that the
// scheduler does not see them: its monitor thread looks for long calls, as often as every
// 20 µs under load, and took a tenth of the proxy's time. Garbage collection stops all
// threads, and waits for a raw call. So only a call that does not block may be raw, or one
// that a signal ends: the runtime sends a thread SIGURG to stop it, and epoll_pwait is never
// restarted after a handler (signal(7)). Without these signals (GODEBUG=asyncpreemptoff=1) a
// stop would last until the wait is over: 3 ms at most. Longer waits are in Go's network poller.
package loop
