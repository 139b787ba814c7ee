// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Confine gives up, for all threads of this process and for good, every system
// call but those that serving connections takes: no file can be opened, no
// program run, no socket made but of the internet families. What is refused
// gets EPERM.
//
// The process needs no_new_privs, which [Start] sets (seccomp(2)). Where a
// filter is in force that forbids to add another, it does nothing.
func Confine() error {
	program := filter()
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]} //nolint:gosec // some 70 instructions
	// TSYNC: the other threads too, or none and the id of one that cannot.
	tid, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))) //nolint:gosec // seccomp(2) takes a pointer
	runtime.KeepAlive(program)
	switch {
	case errno == unix.EPERM && filtered():
		return nil
	case errno != 0:
		return fmt.Errorf("install the system-call filter: %w", errno)
	case tid != 0:
		return fmt.Errorf("install the system-call filter: thread %d has another", tid)
	}
	return nil
}

// filtered reports whether this process has a filter already (prctl(2)).
func filtered() bool {
	mode, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_GET_SECCOMP, 0, 0)
	return errno == 0 && mode == unix.SECCOMP_MODE_FILTER
}

// The fields of struct seccomp_data (linux/seccomp.h).
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// allowed are the calls of Go's runtime and network poller, and of the gate.
func allowed() []uint32 {
	return []uint32{
		unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_CLOSE,
		unix.SYS_ACCEPT4, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_SHUTDOWN,
		unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT,
		unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG,
		unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PIPE2,
		unix.SYS_FSTAT, unix.SYS_LSEEK, unix.SYS_DUP3, unix.SYS_SPLICE, unix.SYS_SENDFILE,
		unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_MREMAP, unix.SYS_BRK, unix.SYS_MINCORE,
		unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY,
		unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETPID, unix.SYS_GETTID,
		unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
		unix.SYS_CLONE, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_RESTART_SYSCALL,
		unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_MEMBARRIER, unix.SYS_GETRANDOM, unix.SYS_UNAME,
		unix.SYS_GETRUSAGE, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE,
	}
}

// filter is the program that the kernel runs for each system call
// (Documentation/userspace-api/seccomp_filter.rst).
func filter() []unix.SockFilter {
	ret := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	// skipUnless skips the next n instructions unless the value is k.
	skipUnless := func(k uint32, n uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: n}
	}
	refuse := func(errno unix.Errno) unix.SockFilter { return ret(unix.SECCOMP_RET_ERRNO | uint32(errno)) } //nolint:gosec // a small number
	allow := ret(unix.SECCOMP_RET_ALLOW)

	// The other calling convention of this machine, such as i386 on amd64,
	// has other numbers.
	program := []unix.SockFilter{
		load(offsetArch),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: auditArch, Jt: 1},
		ret(unix.SECCOMP_RET_KILL_PROCESS),
		load(offsetNumber),
		// glibc, in a binary built with the race detector, falls back to clone.
		skipUnless(unix.SYS_CLONE3, 1), refuse(unix.ENOSYS),
	}
	for _, number := range append(allowed(), alsoAllowed()...) {
		program = append(program, skipUnless(number, 1), allow)
	}
	for _, call := range restricted() {
		of := make([]unix.SockFilter, 0, 2*len(call.values)+2)
		of = append(of, load(offsetArgs+8*call.argument+lowWord()))
		for _, value := range call.values {
			of = append(of, skipUnless(value, 1), allow)
		}
		of = append(of, refuse(unix.EPERM))
		program = append(program, skipUnless(call.number, uint8(len(of)))) //nolint:gosec // a few
		program = append(program, of...)
	}
	return append(program, refuse(unix.EPERM))
}

// restriction allows a call with some values of an argument, of which the low 32
// bits are looked at.
type restriction struct {
	number, argument uint32
	values           []uint32
}

func restricted() []restriction {
	self := uint32(os.Getpid()) //nolint:gosec // a process id
	return []restriction{
		{unix.SYS_SOCKET, 0, []uint32{unix.AF_INET, unix.AF_INET6}},
		// The runtime preempts its own threads; the keeper has the same user.
		{unix.SYS_TGKILL, 0, []uint32{self}},
		// Without F_SETOWN, by which the kernel would send signals for it.
		{unix.SYS_FCNTL, 1, []uint32{unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL, unix.F_DUPFD_CLOEXEC}},
	}
}

// lowWord is where the low 32 bits of an argument lie.
func lowWord() uint32 {
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		return 4
	}
	return 0
}
