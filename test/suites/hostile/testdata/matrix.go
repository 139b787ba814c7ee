// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
)

// This file makes each child process of the service try what the matrix lists
// (test/suites/hostile/matrix): with the unit's sandbox alone, with Landlock in a process of
// its own, and as the confined process beside its work. It is built into the program with
// -overlay. Argv[0] of the service and its children is then matrixName.
func init() {
	kinds := map[string]sandbox.Kind{"proxy": sandbox.Proxy, "exporter": sandbox.Exporter, "prober": sandbox.Prober}
	if len(os.Args) < 2 || kinds[os.Args[1]] == 0 {
		return
	}
	switch os.Args[0] {
	case matrixName:
		abstract, err := net.Listen("unix", fmt.Sprintf("@http01-matrix-%d", os.Getpid()))
		if err != nil {
			fmt.Fprintln(os.Stderr, "MATRIX: abstract socket:", err)
			return
		}
		acts := matrixActs(os.Getppid(), os.Getpid())
		columns := [][]string{tryActs(acts), tryRestricted(os.Args[1])}
		go func() {
			defer abstract.Close()
			for _, err := os.Open("/proc/self/status"); !errors.Is(err, unix.EPERM); _, err = os.Open("/proc/self/status") {
				time.Sleep(time.Millisecond)
			}
			columns = append(columns, tryActs(acts))
			var text strings.Builder
			for i, act := range acts {
				fmt.Fprintf(&text, "MATRIX: %s: %s %s %s\n", act.name, columns[0][i], columns[1][i], columns[2][i])
			}
			// One write, which is complete before the controller ends a prober.
			_, _ = os.Stderr.WriteString(text.String())
		}()
	case matrixName + "-restricted":
		if err := restrictAccess(kinds[os.Args[1]]); err != nil {
			fmt.Fprintln(os.Stderr, "MATRIX: Landlock:", err)
			os.Exit(1)
		}
		controller, _ := strconv.Atoi(os.Args[2])
		fmt.Println(strings.Join(tryActs(matrixActs(controller, os.Getppid())), " "))
		os.Exit(0)
	}
}

const matrixName = "http01-proxyd:matrix"

// tryRestricted returns the outcomes in a process that Landlock restricts.
func tryRestricted(kind string) []string {
	cmd := exec.Command("/proc/self/exe", kind, strconv.Itoa(os.Getppid()))
	cmd.Args[0] = matrixName + "-restricted"
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "MATRIX: restricted process:", err)
	}
	return append(strings.Fields(string(out)), make([]string, len(matrixActs(0, 0)))...)
}

func tryActs(acts []matrixAct) (outcomes []string) {
	for _, act := range acts {
		outcomes = append(outcomes, outcome(act.try()))
	}
	return outcomes
}

// restrictAccess is the part of sandbox.Confine that Landlock enforces.
//
//go:linkname restrictAccess github.com/http01-proxyd/http01-proxyd/internal/sandbox.restrictAccess
func restrictAccess(kind sandbox.Kind) error

type matrixAct struct {
	name string
	try  func() error
}

// outcome returns "yes", or the name of the error.
func outcome(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "yes"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return "error"
}

// matrixActs returns the acts of a child of a controller. The process has an abstract socket.
func matrixActs(controller, process int) []matrixAct {
	open := func(path string, flags int) func() error {
		return func() error {
			fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
			if err == nil {
				_ = unix.Close(fd)
			}
			return err
		}
	}
	create := func(directory string) func() error {
		return func() error {
			path := fmt.Sprintf("%s/matrix-%d", directory, os.Getpid())
			fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
			if err == nil {
				err = errors.Join(unix.Close(fd), unix.Unlink(path))
			}
			return err
		}
	}
	socket := func(family, kind, protocol int) func() error {
		return func() error {
			fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
			if err == nil {
				_ = unix.Close(fd)
			}
			return err
		}
	}
	with := func(family, kind int, do func(fd int) error) func() error {
		return func() error {
			fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return do(fd)
		}
	}
	connect := func(family, kind int, to unix.Sockaddr) func() error {
		return with(family, kind, func(fd int) error { return unix.Connect(fd, to) })
	}
	loopback := [4]byte{127, 0, 0, 1}
	return []matrixAct{
		{"read the configuration", open("/etc/http01-proxyd/config.yaml", unix.O_RDONLY)},
		{"read keepalived.conf", open("/etc/keepalived/keepalived.conf", unix.O_RDONLY)},
		{"read /etc/passwd", open("/etc/passwd", unix.O_RDONLY)},
		{"read /etc/shadow", open("/etc/shadow", unix.O_RDONLY)},
		{"read the state directory", open("/var/lib/http01-proxyd/state", unix.O_RDONLY|unix.O_DIRECTORY)},
		{"write the state directory", create("/var/lib/http01-proxyd/state")},
		{"write the runtime directory", create("/run/http01-proxyd")},
		{"write /tmp", create("/tmp")},
		{"write /etc", create("/etc")},
		{"read its own /proc", open("/proc/self/status", unix.O_RDONLY)},
		{"read the controller's environment", open(fmt.Sprintf("/proc/%d/environ", controller), unix.O_RDONLY)},
		{"open the controller's memory", open(fmt.Sprintf("/proc/%d/mem", controller), unix.O_RDONLY)},
		{"see PID 1 in /proc", open("/proc/1", unix.O_RDONLY|unix.O_DIRECTORY)},
		{"open the memory of PID 1", open("/proc/1/mem", unix.O_RDONLY)},
		{"open a disk of the host", open("/dev/vda", unix.O_RDONLY)},
		{"run a program", func() error { return exec.Command("/bin/true").Run() }},
		{"connect to D-Bus", connect(unix.AF_UNIX, unix.SOCK_STREAM,
			&unix.SockaddrUnix{Name: "/run/dbus/system_bus_socket"})},
		{"connect to systemd's private socket", connect(unix.AF_UNIX, unix.SOCK_STREAM,
			&unix.SockaddrUnix{Name: "/run/systemd/private"})},
		{"connect to systemd's notification socket", connect(unix.AF_UNIX, unix.SOCK_DGRAM,
			&unix.SockaddrUnix{Name: "/run/systemd/notify"})},
		{"connect to the journal", connect(unix.AF_UNIX, unix.SOCK_DGRAM,
			&unix.SockaddrUnix{Name: "/run/systemd/journal/socket"})},
		{"connect to podman", connect(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: "/run/podman/podman.sock"})},
		{"connect to an abstract Unix socket", connect(unix.AF_UNIX, unix.SOCK_STREAM,
			&unix.SockaddrUnix{Name: fmt.Sprintf("@http01-matrix-%d", process)})},
		{"connect to TCP on the loopback address", connect(unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: loopback,
			Port: 6443})},
		{"send UDP to the loopback address", with(unix.AF_INET, unix.SOCK_DGRAM, func(fd int) error {
			return unix.Sendto(fd, []byte{0}, 0, &unix.SockaddrInet4{Addr: loopback, Port: 6443})
		})},
		{"bind a TCP port", with(unix.AF_INET, unix.SOCK_STREAM, func(fd int) error {
			return unix.Bind(fd, &unix.SockaddrInet4{Addr: loopback})
		})},
		{"open a netlink socket", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)},
		{"open a raw socket", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
		{"open a packet socket", socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
		{"signal the controller", func() error { return unix.Kill(controller, 0) }},
		{"signal PID 1", func() error { return unix.Kill(1, 0) }},
		{"read the controller's memory", func() error { return readMemory(controller) }},
		{"trace the controller", func() error { return seize(controller) }},
		{"trace PID 1", func() error { return seize(1) }},
		{"read the controller's limits",
			func() error { return unix.Prlimit(controller, unix.RLIMIT_NOFILE, nil, new(unix.Rlimit)) }},
		{"pin the controller to its processors", func() error {
			var set unix.CPUSet
			for cpu := range runtime.NumCPU() {
				set.Set(cpu)
			}
			return unix.SchedSetaffinity(controller, &set)
		}},
		{"create a user namespace", func() error { return unix.Unshare(unix.CLONE_NEWUSER) }},
		{"map memory that is writable and executable",
			mapMemory(unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE)},
		{"map shared memory", mapMemory(unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)},
		{"map memory that grows", mapMemory(unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_GROWSDOWN)},
		{"load a BPF program", func() error {
			_, _, errno := unix.Syscall(unix.SYS_BPF, 0, 0, 0)
			return asError(errno)
		}},
		{"create an io_uring", func() error {
			fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(new([256]byte))), 0)
			if errno == 0 {
				_ = unix.Close(int(fd))
			}
			return asError(errno)
		}},
	}
}

// mapMemory maps new memory, and unmaps it.
func mapMemory(protection, flags int) func() error {
	return func() error {
		b, err := unix.Mmap(-1, 0, os.Getpagesize(), protection, flags|unix.MAP_ANON)
		if err == nil {
			err = unix.Munmap(b)
		}
		return err
	}
}

func asError(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// readMemory reads from address 0, which is not mapped: EFAULT means that the kernel permits
// the call.
func readMemory(pid int) error {
	local := unix.Iovec{Base: new(byte)}
	local.SetLen(1)
	_, err := unix.ProcessVMReadv(pid, []unix.Iovec{local}, []unix.RemoteIovec{{Base: 0, Len: 1}}, 0)
	if errors.Is(err, unix.EFAULT) {
		return nil
	}
	return err
}

// seize traces a process, which continues to run, until this process ends.
func seize(pid int) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0)
	return asError(errno)
}
