// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// trace is shortened output of strace -f.
const trace = `100 execve("/bin/http01-proxyd", ["http01-proxyd", "run"], 0x7ffc /* 9 vars */) = 0
100 clone(child_stack=0xc000, flags=CLONE_VM|CLONE_VFORK|SIGCHLD <unfinished ...>
101 execve("/proc/self/exe", ["/opt/bin/http01-proxy"..., "exporter"], 0xc000 /* 2 vars */ <unfinished ...>
100 <... clone resumed>) = 101
101 <... execve resumed>) = 0
101 openat(AT_FDCWD, "/proc/self/oom_score_adj", O_RDONLY|O_CLOEXEC) = 3
101 clone(child_stack=0xc000, flags=CLONE_VM|CLONE_FS|CLONE_THREAD <unfinished ...>
102 gettid() = 102
101 <... clone resumed>) = 102
101 seccomp(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, {len=266, filter=0xc000}) = 0
102 setsockopt(7, SOL_TCP, TCP_NODELAY, [1], 4) = 0
102 futex(0xc000, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>
101 openat(AT_FDCWD, "/proc/stat", O_RDONLY) = -1 EPERM (Operation not permitted)
100 openat(AT_FDCWD, "/etc/hosts", O_RDONLY) = 4
102 <... futex resumed>) = 0
102 --- SIGURG {si_signo=SIGURG, si_code=SI_TKILL, si_pid=101, si_uid=0} ---
101 exit_group(0) = ?
`

func TestUsage(t *testing.T) {
	got := make(usage)
	if err := got.add(strings.NewReader(trace)); err != nil {
		t.Fatal(err)
	}
	want := usage{"exporter": {"setsockopt SOL_TCP TCP_NODELAY": {made: 1}, "futex": {made: 1}, "openat": {made: 1, denied: 1}, "exit_group": {made: 1}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(count{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReport(t *testing.T) {
	made := make(usage)
	if err := made.add(strings.NewReader(trace)); err != nil {
		t.Fatal(err)
	}
	allowed := parseAllowed("| system call | processes | arguments | why |\n|---|---|---|---|\n| `brk` | all | any | x |\n| `futex` | exporter, proxy | any | x |\n" +
		"| `setsockopt` | exporter | TCP_NODELAY, SO_KEEPALIVE | x |\n| `setsockopt` | proxy | SO_LINGER | x |\n")
	var b strings.Builder
	if err := printReport(&b, map[string][]string{"exporter": allowed["exporter"]}, made); err != nil {
		t.Fatal(err)
	}
	want := `exporter
  made: exit_group (1), futex (1), setsockopt SOL_TCP TCP_NODELAY (1)
  denied: openat (1)
  allowed, never made: brk, setsockopt SO_KEEPALIVE
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
