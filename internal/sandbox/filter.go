// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Confine restricts all threads of this process, irrevocably, to the system calls that a
// process of this kind needs (see [allowedCalls]). Afterwards it cannot open files, run
// programs, or start processes and threads, and it can only create internet sockets. Every
// other call fails with EPERM. Confine also limits the descriptors, and the memory where
// GOMEMLIMIT sets a limit, and makes the kernel end this process before its parent when memory
// runs out. Where the kernel supports Landlock, Confine also uses it to deny files and
// networks.
//
// The process needs no_new_privs, which [Start] sets (seccomp(2)).
func Confine(kind Kind) error {
	if err := applyLimits(kind); err != nil {
		return err
	}
	// The filter forbids the system calls of Landlock.
	if err := restrictAccess(kind); err != nil {
		return err
	}
	// Go's runtime may still be creating a thread. Behind the filter, this would fail and end the
	// process. A system call on all threads waits for it. Landlock makes such a call too, but not
	// every kernel has it. The idle threads of StartThreads make a later one unnecessary. With cgo,
	// the call is not supported.
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0); errno != 0 && errno != unix.ENOTSUP {
		return fmt.Errorf("wait for threads that start: %w", errno)
	}
	program := filter(kind)
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]} //nolint:gosec // some 200 instructions
	// TSYNC applies the filter to all threads, or returns the ID of a thread with another
	// filter.
	tid, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))) //nolint:gosec // seccomp(2) takes a pointer
	runtime.KeepAlive(program)
	switch {
	case errno == unix.EPERM && hasFilter():
		return fmt.Errorf(
			"install the system-call filter: %w: the filter of the unit or the container forbids seccomp(2): allow it, in a "+
				"unit by SystemCallFilter=seccomp", errno)
	case errno != 0:
		return fmt.Errorf("install the system-call filter: %w", errno)
	case tid != 0:
		return fmt.Errorf("install the system-call filter: thread %d has another", tid)
	}
	return nil
}

// hasFilter reports whether this process already has a filter (prctl(2)).
func hasFilter() bool {
	mode, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_GET_SECCOMP, 0, 0)
	return errno == 0 && mode == unix.SECCOMP_MODE_FILTER
}

// Offsets in struct seccomp_data (linux/seccomp.h).
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// filter returns the program that the kernel runs for each system call
// (Documentation/userspace-api/seccomp_filter.rst).
func filter(kind Kind) []unix.SockFilter {
	// Another calling convention of this machine, such as i386 on amd64, uses other numbers.
	program := []unix.SockFilter{
		load(offsetArch),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: auditArch, Jt: 1},
		ret(unix.SECCOMP_RET_KILL_PROCESS),
		load(offsetNumber),
	}
	for _, c := range slices.Concat(allowedCalls(), cLibraryCalls()) {
		if c.kinds&kind == 0 {
			continue
		}
		body := c.instructions()
		program = append(program, skipUnless(c.number, uint8(len(body)))) //nolint:gosec // fewer than 100
		program = append(program, body...)
	}
	return append(program, refuse(unix.EPERM))
}

// instructions decides on one call, whose number was compared before.
func (c *allowedCall) instructions() []unix.SockFilter {
	var body []unix.SockFilter
	for _, check := range c.checks {
		body = append(body, load(argumentOffset(check.argument)))
		if check.mask != fullMask {
			body = append(body, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: check.mask})
		}
		for i, value := range check.values {
			// Skips the other values, and the rejection.
			body = append(body, skipIf(value, uint8(len(check.values)-i))) //nolint:gosec // a few
		}
		body = append(body, refuse(unix.EPERM))
	}
	if c.options == nil {
		return append(body, ret(unix.SECCOMP_RET_ALLOW))
	}
	for _, o := range c.options {
		body = append(body,
			load(argumentOffset(1)), skipUnless(o.level, 3), //nolint:mnd // to the next option
			load(argumentOffset(2)), skipUnless(o.name, 1), ret(unix.SECCOMP_RET_ALLOW)) //nolint:mnd // the option's name
	}
	return append(body, refuse(unix.EPERM))
}

func argumentOffset(number uint32) uint32 { return offsetArgs + 8*number + lowWordOffset() }

func ret(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

func refuse(errno unix.Errno) unix.SockFilter {
	return ret(unix.SECCOMP_RET_ERRNO | uint32(errno)) //nolint:gosec // a small number
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// skipUnless skips the next n instructions unless the value is k. skipIf skips them if
// it is.
func skipUnless(k uint32, n uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: n}
}

func skipIf(k uint32, n uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: n}
}

// lowWordOffset returns the offset of an argument's low 32 bits.
func lowWordOffset() uint32 {
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		return 4
	}
	return 0
}
