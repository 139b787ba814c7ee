// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"

	"golang.org/x/sys/unix"
)

// Kind is a kind of child process, or several: a set of bits.
type Kind uint8

// The kinds of child processes.
const (
	Proxy Kind = 1 << iota
	Exporter
	Prober

	everyone = Proxy | Exporter | Prober
)

// call is a system call that some processes may make.
type call struct {
	name    string
	number  uint32
	kinds   Kind
	why     string
	only    string   // what the checks and options let through, in words
	checks  []check  // of single arguments: all have to hold
	options []option // of setsockopt(2): one has to hold
}

// check holds for a call of which (argument & mask) is one of the values. It sees
// the low 32 bits of the argument, as the kernel does of an int.
type check struct {
	argument uint32
	mask     uint32
	values   []uint32
}

// option is a level and a name of setsockopt(2).
type option struct{ level, name uint32 }

const all = ^uint32(0)

// fileCommands are those of fcntl(2) that say nothing to other processes. F_SETOWN
// is not among them: by it the kernel would send signals for a child.
func fileCommands() []uint32 {
	return []uint32{unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL, unix.F_DUPFD_CLOEXEC}
}

// socketOptions are set by package net and by ours on sockets of their own. Those
// that a child sets on a listening socket stay there, until the controller takes them
// back for its successor.
func socketOptions() []option {
	return []option{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY},
		{unix.SOL_SOCKET, unix.SO_LINGER},
		{unix.SOL_SOCKET, unix.SO_RCVBUF},
		{unix.SOL_SOCKET, unix.SO_SNDBUF},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT},
		{unix.SOL_SOCKET, unix.SO_BROADCAST},
		{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY},
	}
}

// threadFlags of clone(2): CLONE_THREAD, and no namespace.
const threadFlags = unix.CLONE_THREAD |
	unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// calls are all that a child process may do, the most frequent first. Whatever is
// not here, or has other arguments, gets EPERM.
func calls() []call {
	const (
		files    = "read and write sockets and pipes that it has"
		sockets  = "ask a socket that it has, or shut it down"
		poller   = "Go's network poller"
		memory   = "Go's heap and stacks; nothing executable"
		threads  = "Go's scheduler"
		clocks   = "Go's timers"
		signals  = "Go's runtime: preemption of its own threads, and crashes"
		identity = "Go's runtime and libc name the process and the thread"
	)
	family := check{0, all, []uint32{unix.AF_INET, unix.AF_INET6}}
	of := func(types ...uint32) check { return check{1, ^uint32(unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK), types} }
	notExecutable := []check{{2, unix.PROT_EXEC, []uint32{0}}}
	list := []call{
		{"read", unix.SYS_READ, everyone, files, "", nil, nil},
		{"write", unix.SYS_WRITE, everyone, files, "", nil, nil},
		{"accept4", unix.SYS_ACCEPT4, Proxy | Exporter, "take a client's connection", "", nil, nil},
		{"close", unix.SYS_CLOSE, everyone, files, "", nil, nil},
		{"recvfrom", unix.SYS_RECVFROM, everyone, files, "", nil, nil},
		{"epoll_pwait", unix.SYS_EPOLL_PWAIT, everyone, poller, "", nil, nil},
		{"epoll_ctl", unix.SYS_EPOLL_CTL, everyone, poller, "", nil, nil},
		{"futex", unix.SYS_FUTEX, everyone, threads, "", nil, nil},
		{"nanosleep", unix.SYS_NANOSLEEP, everyone, threads, "", nil, nil},
		{"getsockname", unix.SYS_GETSOCKNAME, everyone, sockets, "", nil, nil},
		{"getsockopt", unix.SYS_GETSOCKOPT, everyone, sockets, "", nil, nil},
		{"shutdown", unix.SYS_SHUTDOWN, everyone, sockets, "", nil, nil},
		{"setsockopt", unix.SYS_SETSOCKOPT, everyone, "package net's settings of a connection, and the reset of one", "TCP_NODELAY, SO_LINGER, SO_RCVBUF, SO_SNDBUF, SO_BROADCAST, IPV6_V6ONLY and the options of TCP keep-alive", nil, socketOptions()},
		{"connect", unix.SYS_CONNECT, Proxy | Prober, "reach the ingress, the egress proxy or what is probed", "", nil, nil},
		{"socket", unix.SYS_SOCKET, Proxy, "TCP to the ingress or the egress proxy", "AF_INET, AF_INET6; SOCK_STREAM; TCP", []check{family, of(unix.SOCK_STREAM), {2, all, []uint32{0, unix.IPPROTO_TCP}}}, nil},
		{"socket", unix.SYS_SOCKET, Prober, "TCP to what is probed, and UDP to DNS and NTP servers", "AF_INET, AF_INET6; SOCK_STREAM, SOCK_DGRAM; TCP, UDP", []check{family, of(unix.SOCK_STREAM, unix.SOCK_DGRAM), {2, all, []uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP}}}, nil},
		{"sendto", unix.SYS_SENDTO, Prober, "datagrams; nothing out of band", "no flags but MSG_DONTWAIT and MSG_NOSIGNAL", []check{{3, ^uint32(unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL), []uint32{0}}}, nil},
		{"getpeername", unix.SYS_GETPEERNAME, everyone, sockets, "", nil, nil},
		{"recvmsg", unix.SYS_RECVMSG, everyone, "commands of the controller, and their descriptors", "", nil, nil},
		{"writev", unix.SYS_WRITEV, everyone, files, "", nil, nil},
		{"fcntl", unix.SYS_FCNTL, everyone, "descriptors that it has", "F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC", []check{{1, all, fileCommands()}}, nil},
		{"fstat", unix.SYS_FSTAT, everyone, "what a descriptor is", "", nil, nil},
		{"epoll_create1", unix.SYS_EPOLL_CREATE1, everyone, poller, "", nil, nil},
		{"eventfd2", unix.SYS_EVENTFD2, everyone, poller, "", nil, nil},
		{"clock_gettime", unix.SYS_CLOCK_GETTIME, everyone, clocks, "", nil, nil},
		{"clock_nanosleep", unix.SYS_CLOCK_NANOSLEEP, everyone, clocks, "", nil, nil},
		{"gettimeofday", unix.SYS_GETTIMEOFDAY, everyone, clocks, "", nil, nil},
		{"mmap", unix.SYS_MMAP, everyone, memory, "no PROT_EXEC", notExecutable, nil},
		{"munmap", unix.SYS_MUNMAP, everyone, memory, "", nil, nil},
		{"mprotect", unix.SYS_MPROTECT, everyone, memory, "no PROT_EXEC", notExecutable, nil},
		{"madvise", unix.SYS_MADVISE, everyone, memory, "", nil, nil},
		{"mremap", unix.SYS_MREMAP, everyone, memory, "", nil, nil},
		{"brk", unix.SYS_BRK, everyone, memory, "", nil, nil},
		{"sched_yield", unix.SYS_SCHED_YIELD, everyone, threads, "", nil, nil},
		{"sched_getaffinity", unix.SYS_SCHED_GETAFFINITY, everyone, threads, "", nil, nil},
		{"clone", unix.SYS_CLONE, everyone, "threads of this process; no other process, and no namespace", "CLONE_THREAD, and no flag of a namespace", []check{{cloneFlags, threadFlags, []uint32{unix.CLONE_THREAD}}}, nil},
		{"set_robust_list", unix.SYS_SET_ROBUST_LIST, everyone, threads, "", nil, nil},
		{"rseq", unix.SYS_RSEQ, everyone, threads, "", nil, nil},
		{"membarrier", unix.SYS_MEMBARRIER, everyone, threads, "", nil, nil},
		{"getpid", unix.SYS_GETPID, everyone, identity, "", nil, nil},
		{"gettid", unix.SYS_GETTID, everyone, identity, "", nil, nil},
		{"tgkill", unix.SYS_TGKILL, everyone, signals, "threads of this process", []check{{0, all, []uint32{uint32(os.Getpid())}}}, nil}, //nolint:gosec // a process id
		{"rt_sigaction", unix.SYS_RT_SIGACTION, everyone, signals, "", nil, nil},
		{"rt_sigprocmask", unix.SYS_RT_SIGPROCMASK, everyone, signals, "", nil, nil},
		{"rt_sigreturn", unix.SYS_RT_SIGRETURN, everyone, signals, "", nil, nil},
		{"sigaltstack", unix.SYS_SIGALTSTACK, everyone, signals, "", nil, nil},
		{"restart_syscall", unix.SYS_RESTART_SYSCALL, everyone, signals, "", nil, nil},
		{"getrandom", unix.SYS_GETRANDOM, everyone, "TLS, and Go's maps", "", nil, nil},
		{"exit", unix.SYS_EXIT, everyone, "the end of a thread", "", nil, nil},
		{"exit_group", unix.SYS_EXIT_GROUP, everyone, "the end of the process", "", nil, nil},
	}
	return append(list, architectureCalls()...)
}
