// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"

	"golang.org/x/sys/unix"
)

// Kind is a set of kinds of child processes: a bit mask.
type Kind uint8

// The kinds of child processes.
const (
	Proxy Kind = 1 << iota
	Exporter
	Prober

	allKinds = Proxy | Exporter | Prober
)

// allowedCall is a system call that child processes of some kinds may make.
type allowedCall struct {
	name        string
	number      uint32
	kinds       Kind
	reason      string
	restriction string          // describes the arguments that checks and options accept
	checks      []argumentCheck // of single arguments: all must match
	options     []socketOption  // of setsockopt(2): one must match
}

// argumentCheck matches a call whose (argument & mask) is one of the values. It compares
// the low 32 bits of the argument, as the kernel does for an int.
type argumentCheck struct {
	argument uint32
	mask     uint32
	values   []uint32
}

// socketOption is a level and a name of setsockopt(2).
type socketOption struct{ level, name uint32 }

const fullMask = ^uint32(0)

// maxStandardSignal is the greatest signal that cannot be pending more than once for a thread
// (signal(7)).
const maxStandardSignal = 31

// fileCommands returns the commands of fcntl(2) that have no effect on other processes.
// F_SETOWN is not one of them: with it the kernel sends signals on behalf of a child.
func fileCommands() []uint32 {
	return []uint32{unix.F_GETFL, unix.F_SETFL, unix.F_DUPFD_CLOEXEC}
}

// proxyOptions returns the options that the event loops and the upstream exchange set. An
// option that a child sets on a listening socket stays set until the controller resets it for
// the next child.
func proxyOptions() []socketOption {
	return []socketOption{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT},
		{unix.SOL_SOCKET, unix.SO_LINGER},
		{unix.SOL_SOCKET, unix.SO_RCVBUF},
		{unix.SOL_SOCKET, unix.SO_SNDBUF},
		{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY},
	}
}

// exporterOptions returns the options that package net sets on an accepted connection.
func exporterOptions() []socketOption {
	return []socketOption{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT},
	}
}

// proberOptions returns the options that package net and the upstream exchange set on TCP
// connections and UDP sockets.
func proberOptions() []socketOption {
	return append(exporterOptions(),
		socketOption{unix.SOL_SOCKET, unix.SO_RCVBUF},
		socketOption{unix.SOL_SOCKET, unix.SO_SNDBUF},
		socketOption{unix.SOL_SOCKET, unix.SO_BROADCAST},
		socketOption{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY},
	)
}

// mappingFlags are the flags of mmap(2) that a private mapping of new memory may also use.
// Neither shared memory nor a mapping that grows counts as data of the process (RLIMIT_DATA).
// Huge pages do not count for the unit (MemoryMax=).
const mappingFlags = unix.MAP_FIXED | unix.MAP_NORESERVE | unix.MAP_STACK

// allowedCalls returns every system call that a child process may make, the most frequent
// first. [cLibraryCalls] adds the calls of a build with cgo. A call that is not listed, or that
// uses other arguments, fails with EPERM.
func allowedCalls() []allowedCall {
	const (
		files    = "read, write and close its sockets and pipes"
		sockets  = "query its sockets"
		poller   = "Go's network poller, and the proxy's event loops"
		memory   = "Go's heap and stacks; nothing executable"
		threads  = "Go's scheduler"
		clocks   = "Go's timers"
		signals  = "Go's runtime: preemption of its own threads, and crashes"
		identity = "Go's runtime and libc identify the process and the thread"
	)
	family := argumentCheck{0, fullMask, []uint32{unix.AF_INET, unix.AF_INET6}}
	of := func(types ...uint32) argumentCheck {
		return argumentCheck{1, ^uint32(unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK), types}
	}
	notExecutable := argumentCheck{2, unix.PROT_EXEC, []uint32{0}}
	newMemory := argumentCheck{3, ^uint32(mappingFlags), []uint32{unix.MAP_PRIVATE | unix.MAP_ANON}}
	list := []allowedCall{
		{"read", unix.SYS_READ, allKinds, files, "", nil, nil},
		{"write", unix.SYS_WRITE, allKinds, files, "", nil, nil},
		{"accept4", unix.SYS_ACCEPT4, Proxy | Exporter, "accept a client's connection", "", nil, nil},
		{"close", unix.SYS_CLOSE, allKinds, files, "", nil, nil},
		{"recvfrom", unix.SYS_RECVFROM, Proxy | Prober, "read its sockets", "", nil, nil},
		{"epoll_pwait", unix.SYS_EPOLL_PWAIT, allKinds, poller, "", nil, nil},
		{"epoll_ctl", unix.SYS_EPOLL_CTL, allKinds, poller, "", nil, nil},
		{"futex", unix.SYS_FUTEX, allKinds, threads, "", nil, nil},
		{"nanosleep", unix.SYS_NANOSLEEP, allKinds, threads, "", nil, nil},
		{"getsockname", unix.SYS_GETSOCKNAME, allKinds, sockets, "", nil, nil},
		{"getsockopt", unix.SYS_GETSOCKOPT, allKinds, sockets, "", nil, nil},
		{"shutdown", unix.SYS_SHUTDOWN, Proxy | Exporter, "shut down its sockets", "", nil, nil},
		{
			"setsockopt", unix.SYS_SETSOCKOPT, Proxy, "settings of a connection, and resetting one",
			"TCP_NODELAY, TCP_USER_TIMEOUT, SO_LINGER, SO_RCVBUF, SO_SNDBUF, IPV6_V6ONLY", nil, proxyOptions(),
		},
		{
			"setsockopt", unix.SYS_SETSOCKOPT, Exporter, "settings of package net for a connection",
			"TCP_NODELAY, SO_KEEPALIVE, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT", nil, exporterOptions(),
		},
		{
			"setsockopt", unix.SYS_SETSOCKOPT, Prober,
			"settings of package net for a connection or a UDP socket, and the upstream exchange's",
			"TCP_NODELAY, SO_KEEPALIVE, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, SO_RCVBUF, SO_SNDBUF, SO_BROADCAST, " +
				"IPV6_V6ONLY", nil, proberOptions(),
		},
		{
			"connect", unix.SYS_CONNECT, Proxy | Prober,
			"connect to the ingress, the egress proxy, a VIP of another host or a probed server", "", nil, nil,
		},
		{
			"socket", unix.SYS_SOCKET, Proxy, "TCP to the ingress, the egress proxy or a VIP of another host",
			"AF_INET, AF_INET6; SOCK_STREAM; TCP",
			[]argumentCheck{
				family, of(unix.SOCK_STREAM),
				{2, fullMask, []uint32{0, unix.IPPROTO_TCP}},
			},
			nil,
		},
		{
			"socket", unix.SYS_SOCKET, Prober, "TCP to probed servers, UDP to DNS and NTP servers",
			"AF_INET, AF_INET6; SOCK_STREAM, SOCK_DGRAM; TCP, UDP",
			[]argumentCheck{
				family, of(unix.SOCK_STREAM, unix.SOCK_DGRAM),
				{2, fullMask, []uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP}},
			},
			nil,
		},
		{
			"sendto", unix.SYS_SENDTO, Prober, "datagrams; nothing out of band", "no flags but MSG_DONTWAIT and MSG_NOSIGNAL",
			[]argumentCheck{{3, ^uint32(unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL), []uint32{0}}},
			nil,
		},
		{"getpeername", unix.SYS_GETPEERNAME, allKinds, sockets, "", nil, nil},
		{"recvmsg", unix.SYS_RECVMSG, allKinds, "commands of the controller with their descriptors", "", nil, nil},
		{
			"fcntl", unix.SYS_FCNTL, allKinds, "its descriptors", "F_GETFL, F_SETFL, F_DUPFD_CLOEXEC",
			[]argumentCheck{{1, fullMask, fileCommands()}},
			nil,
		},
		{"fstat", unix.SYS_FSTAT, allKinds, "the type of a descriptor", "", nil, nil},
		{"epoll_create1", unix.SYS_EPOLL_CREATE1, allKinds, poller, "", nil, nil},
		{"eventfd2", unix.SYS_EVENTFD2, allKinds, poller, "", nil, nil},
		{"clock_gettime", unix.SYS_CLOCK_GETTIME, allKinds, clocks, "", nil, nil},
		{
			"mmap", unix.SYS_MMAP, allKinds, memory, "MAP_PRIVATE and MAP_ANON, with MAP_FIXED, MAP_NORESERVE, MAP_STACK or without; no PROT_EXEC",
			[]argumentCheck{notExecutable, newMemory},
			nil,
		},
		{"munmap", unix.SYS_MUNMAP, allKinds, memory, "", nil, nil},
		{"mprotect", unix.SYS_MPROTECT, allKinds, memory, "no PROT_EXEC", []argumentCheck{notExecutable}, nil},
		{"madvise", unix.SYS_MADVISE, allKinds, memory, "", nil, nil},
		{"sched_yield", unix.SYS_SCHED_YIELD, allKinds, threads, "", nil, nil},
		{"getpid", unix.SYS_GETPID, allKinds, identity, "", nil, nil},
		{"gettid", unix.SYS_GETTID, allKinds, identity, "", nil, nil},
		{
			"tgkill", unix.SYS_TGKILL, allKinds, signals, "threads of this process; no real-time signals, which queue up",
			[]argumentCheck{
				{0, fullMask, []uint32{uint32(os.Getpid())}}, //nolint:gosec // a process id
				{2, ^uint32(maxStandardSignal), []uint32{0}},
			},
			nil,
		},
		{"rt_sigaction", unix.SYS_RT_SIGACTION, allKinds, signals, "", nil, nil},
		{"rt_sigprocmask", unix.SYS_RT_SIGPROCMASK, allKinds, signals, "", nil, nil},
		{"rt_sigreturn", unix.SYS_RT_SIGRETURN, allKinds, signals, "", nil, nil},
		{"sigaltstack", unix.SYS_SIGALTSTACK, allKinds, signals, "", nil, nil},
		{"restart_syscall", unix.SYS_RESTART_SYSCALL, allKinds, signals, "", nil, nil},
		{"getrandom", unix.SYS_GETRANDOM, allKinds, "TLS, and Go's maps", "", nil, nil},
		{"exit", unix.SYS_EXIT, allKinds, "the end of a thread", "", nil, nil},
		{"exit_group", unix.SYS_EXIT_GROUP, allKinds, "the end of the process", "", nil, nil},
	}
	return append(list, architectureCalls()...)
}
