// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
)

// sandboxFaults lists the settings of a unit that prevent the service from working.
func sandboxFaults(u systemd.Unit) []string {
	var faults []string
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	const needed = uint64(1) << unix.CAP_NET_ADMIN
	root := !u.DynamicUser && (u.User == "" || u.User == "root" || u.User == "0")
	add(u.BoundingSet&needed == 0, "CapabilityBoundingSet= lacks %s", Capability)
	add(u.BoundingSet&needed != 0 && !root && u.Ambient&needed == 0, "AmbientCapabilities= lacks %s", Capability)
	families := deniedNames(u.AddressFamilies, "AF_NETLINK", "AF_UNIX", "AF_INET", "AF_INET6")
	add(len(families) > 0, "RestrictAddressFamilies= denies %s", strings.Join(families, " "))
	calls := deniedNames(u.SystemCalls, requiredSyscalls()...)
	add(len(calls) > 0, "SystemCallFilter= denies %s", strings.Join(calls, " "))
	add(u.PrivateNetwork, "PrivateNetwork=yes hides the host's network")
	add(u.PrivateUsers, "PrivateUsers=yes disables %s", Capability)
	add(u.DeniesIPAddresses, "IPAddressDeny= blocks connections")
	if len(faults) == 0 {
		add(killedByFilter(u), "a system call filter killed it (SIGSYS)")
		add(isSandboxExit(u), "systemd could not set up the sandbox (exit code %d; see journalctl -u %s)", u.ExecMainStatus,
			Name)
	}
	return faults
}

// killedByFilter reports CLD_KILLED or CLD_DUMPED of sigaction(2) with SIGSYS.
func killedByFilter(u systemd.Unit) bool {
	return (u.ExecMainCode == 2 || u.ExecMainCode == 3) && u.ExecMainStatus == int(unix.SIGSYS)
}

// requiredSyscalls are system calls that the service makes on every machine. A filter
// that denies one of them is not suitable for it.
func requiredSyscalls() []string {
	return []string{
		"accept4", "bind", "clone", "close", "connect", "epoll_ctl", "execve", "futex", "inotify_add_watch",
		"listen", "mmap", "openat", "prctl", "read", "recvmsg", "seccomp", "sendmsg", "setsockopt", "socket", "socketpair",
		"write",
	}
}

func deniedNames(f systemd.Filter, names ...string) []string {
	var all []string
	for _, n := range names {
		if f.Denies(n) {
			all = append(all, n)
		}
	}
	return all
}
