// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write the table of system calls")

const systemCallsDocument = "../../docs/internals/system-calls.md"

// RestrictAccess is the part of [Confine] that Landlock enforces.
func RestrictAccess(kind Kind) error { return restrictAccess(kind) }

func kinds() map[string]Kind {
	return map[string]Kind{"proxy": Proxy, "exporter": Exporter, "prober": Prober}
}

// ForbiddenActions returns what this test program does as a confined child, by name.
func ForbiddenActions() map[string]func() int {
	actions := make(map[string]func() int)
	for name, kind := range kinds() {
		actions["forbidden to "+name] = func() int {
			if err := Confine(kind); err != nil {
				return report(err.Error())
			}
			return report(forbiddenCalls(kind)...)
		}
	}
	return actions
}

func report(faults ...string) int {
	for _, fault := range faults {
		fmt.Println(fault)
	}
	return min(len(faults), 1)
}

// lastCall is greater than the last system call of Linux 6.18 on every architecture.
const lastCall = 600

// forbiddenCalls makes every system call that this kind of process must not make, and
// the restricted calls with other arguments. It returns the calls that did not fail.
func forbiddenCalls(kind Kind) (faults []string) {
	want := func(name string, number uint32, arguments ...uintptr) {
		var a [6]uintptr
		copy(a[:], arguments)
		_, _, got := unix.RawSyscall6(uintptr(number), a[0], a[1], a[2], a[3], a[4], a[5])
		if got != unix.EPERM {
			faults = append(faults, fmt.Sprintf("%s: %v, want EPERM", name, got))
		}
	}
	may := make(map[uint32]bool)
	for _, c := range slices.Concat(allowedCalls(), cLibraryCalls()) {
		may[c.number] = may[c.number] || c.kinds&kind != 0
	}
	if runtime.GOARCH == "amd64" {
		// uretprobe and uprobe, which no filter sees: the kernel kills a process that makes
		// them outside of a probe (kernel/seccomp.c, seccomp_uprobe_exception).
		may[335], may[336] = true, true
	}
	want("clone: a thread", unix.SYS_CLONE)
	if len(faults) > 0 {
		return faults // some calls never return without a filter
	}
	for number := range uint32(lastCall) {
		if !may[number] {
			want(fmt.Sprint("call ", number), number)
		}
	}
	const none = ^uintptr(0) // a descriptor, or an address, that does not exist
	for name, of := range map[string]socketOption{
		"IP_MINTTL": {unix.IPPROTO_IP, unix.IP_MINTTL}, "IPV6_MINHOPCOUNT": {unix.IPPROTO_IPV6, unix.IPV6_MINHOPCOUNT},
		"SO_BINDTODEVICE": {unix.SOL_SOCKET, unix.SO_BINDTODEVICE}, "SO_ATTACH_FILTER": {
			unix.SOL_SOCKET,
			unix.SO_ATTACH_FILTER,
		},
		"SO_DETACH_FILTER": {unix.SOL_SOCKET, unix.SO_DETACH_FILTER}, "SO_ATTACH_BPF": {unix.SOL_SOCKET, unix.SO_ATTACH_BPF},
		"SO_REUSEPORT": {unix.SOL_SOCKET, unix.SO_REUSEPORT}, "SO_ATTACH_REUSEPORT_CBPF": {
			unix.SOL_SOCKET,
			unix.SO_ATTACH_REUSEPORT_CBPF,
		},
		"TCP_DEFER_ACCEPT": {unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT}, "TCP_ULP": {unix.IPPROTO_TCP, unix.TCP_ULP},
		"TCP_FASTOPEN": {unix.IPPROTO_TCP, unix.TCP_FASTOPEN},
		"TCP_REPAIR":   {unix.IPPROTO_TCP, unix.TCP_REPAIR}, "SO_RCVTIMEO": {unix.SOL_SOCKET, unix.SO_RCVTIMEO},
		"a name of another level": {unix.IPPROTO_IP, unix.SO_LINGER},
		"PACKET_ADD_MEMBERSHIP":   {unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP},
	} {
		want("setsockopt: "+name, unix.SYS_SETSOCKOPT, none, uintptr(of.level), uintptr(of.name))
	}
	for name, of := range map[string][]uintptr{
		"unix": {unix.AF_UNIX, unix.SOCK_STREAM}, "netlink": {unix.AF_NETLINK, unix.SOCK_RAW},
		"packet": {unix.AF_PACKET, unix.SOCK_RAW},
		"vsock":  {unix.AF_VSOCK, unix.SOCK_STREAM}, "ICMP": {unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP},
		"raw":  {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP},
		"SCTP": {unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, "MPTCP": {
			unix.AF_INET6, unix.SOCK_STREAM,
			unix.IPPROTO_MPTCP,
		},
	} {
		want("socket: "+name, unix.SYS_SOCKET, of...)
	}
	if kind != Proxy {
		want("setsockopt: TCP_USER_TIMEOUT", unix.SYS_SETSOCKOPT, none, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		want("setsockopt: SO_LINGER", unix.SYS_SETSOCKOPT, none, unix.SOL_SOCKET, unix.SO_LINGER)
	}
	if kind == Proxy {
		want("setsockopt: SO_KEEPALIVE", unix.SYS_SETSOCKOPT, none, unix.SOL_SOCKET, unix.SO_KEEPALIVE)
	}
	if kind != Prober {
		want("setsockopt: SO_BROADCAST", unix.SYS_SETSOCKOPT, none, unix.SOL_SOCKET, unix.SO_BROADCAST)
	}
	if kind == Exporter {
		want("setsockopt: SO_RCVBUF", unix.SYS_SETSOCKOPT, none, unix.SOL_SOCKET, unix.SO_RCVBUF)
	}
	if kind != Prober {
		want("socket: UDP", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM)
	}
	for name, flags := range map[string]uintptr{"MSG_OOB": unix.MSG_OOB, "MSG_FASTOPEN": unix.MSG_FASTOPEN} {
		want("sendto: "+name, unix.SYS_SENDTO, none, 0, 0, flags)
	}
	want("mmap: executable", unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_EXEC,
		unix.MAP_PRIVATE|unix.MAP_ANON, none)
	for name, flags := range map[string]uintptr{
		"shared": unix.MAP_SHARED | unix.MAP_ANON, "of a descriptor": unix.MAP_PRIVATE,
		"shared, validated": unix.MAP_SHARED_VALIDATE | unix.MAP_ANON,
		"that is dropped":   unix.MAP_DROPPABLE | unix.MAP_ANON,
		"that grows":        unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_GROWSDOWN,
		"of huge pages":     unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_HUGETLB,
		"locked":            unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_LOCKED,
	} {
		want("mmap: memory "+name, unix.SYS_MMAP, 0, 4096, unix.PROT_READ, flags, none)
	}
	want("mprotect: executable", unix.SYS_MPROTECT, 0, 4096, unix.PROT_EXEC)
	want("fcntl: F_SETOWN", unix.SYS_FCNTL, 0, unix.F_SETOWN, 1)
	want("tgkill: the parent", unix.SYS_TGKILL, uintptr(os.Getppid()), uintptr(os.Getppid()))
	want("tgkill: a real-time signal", unix.SYS_TGKILL, uintptr(os.Getpid()), uintptr(unix.Gettid()), 50)
	return faults
}

// TestTable compares the documented table with the filter. `make docs` writes the table.
func TestTable(t *testing.T) {
	if architectureCalls() != nil {
		t.Skip("the table is that of the other architectures")
	}
	text, err := os.ReadFile(systemCallsDocument)
	if err != nil {
		t.Fatal(err)
	}
	const begin = "\n## Allowed calls\n\n"
	head, old, found := strings.Cut(string(text), begin)
	if !found {
		t.Fatalf("%s has no list", systemCallsDocument)
	}
	want := table()
	if *update {
		if err := os.WriteFile(systemCallsDocument, []byte(head+begin+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, old); diff != "" {
		t.Errorf("run make docs (-want +got):\n%s", diff)
	}
}

// table lists the system calls in Markdown: one item for the calls with the same processes,
// arguments and reason.
func table() string {
	calls := make(map[string][]string)
	for _, c := range allowedCalls() {
		var processes []string
		for name, kind := range kinds() {
			if c.kinds&kind != 0 {
				processes = append(processes, name)
			}
		}
		slices.Sort(processes)
		text := " (" + strings.Join(processes, ", ") + ")"
		if len(processes) == len(kinds()) {
			text = ""
		}
		only := ""
		if c.restriction != "" {
			only = " Arguments: " + c.restriction + "."
		}
		rest := fmt.Sprintf("%s: %s.%s\n", text, c.reason, only)
		calls[rest] = append(calls[rest], "`"+c.name+"`")
	}
	var lines []string
	for rest, names := range calls {
		slices.Sort(names)
		lines = append(lines, "- "+strings.Join(names, ", ")+rest)
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// TestRestrictedCallsAreDescribed requires words for every restriction of arguments.
func TestRestrictedCallsAreDescribed(t *testing.T) {
	t.Parallel()
	for _, c := range allowedCalls() {
		if (c.restriction == "") != (c.checks == nil && c.options == nil) || c.reason == "" || c.name == "" {
			t.Errorf("%s: %q, %q", c.name, c.restriction, c.reason)
		}
		if n := len(c.instructions()); n > 255 {
			t.Errorf("%s: a jump over %d instructions", c.name, n)
		}
	}
}

// TestLowerLimitIsKept: lowerLimit does not raise a limit.
func TestLowerLimitIsKept(t *testing.T) {
	t.Parallel()
	var now unix.Rlimit
	err := unix.Prlimit(0, unix.RLIMIT_CORE, nil, &now)
	if err = errors.Join(err, lowerLimit(unix.RLIMIT_CORE, unix.RLIM_INFINITY)); err != nil {
		t.Fatal(err)
	}
	var after unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, nil, &after); err != nil || after != now {
		t.Errorf("%+v, before %+v, %v", after, now, err)
	}
}
