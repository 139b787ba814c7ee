// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// usage is what a process used since its start, and its memory.
type usage struct {
	node, name string
	wakeUps    int           // context switches of all threads, voluntary or not
	cpu        time.Duration // of all threads
	pss        int           // bytes
	private    int           // bytes of pages that no other process maps
}

// snapshot returns the usage of each process that this command started, by process ID.
func snapshot(ctx context.Context) (map[int]usage, error) {
	out := map[int]usage{}
	for _, pid := range descendants(os.Getpid()) {
		u, err := usageOf(ctx, pid)
		if err != nil {
			return nil, err
		}
		out[pid] = u
	}
	return out, nil
}

func descendants(pid int) (all []int) {
	for _, child := range lab.Children(pid) {
		all = append(append(all, child), descendants(child)...)
	}
	return all
}

// usageOf reads proc_pid_status(5), proc_pid_smaps_rollup(5) and schedstat, whose first number
// is the time on a processor in nanoseconds (kernel: Documentation/scheduler/sched-stats.rst).
func usageOf(ctx context.Context, pid int) (u usage, err error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	line, err := os.ReadFile(dir + "/cmdline")
	if err != nil {
		return u, fmt.Errorf("read a command line: %w", err)
	}
	args := strings.Split(string(line), "\x00")
	u.name = filepath.Base(strings.TrimSuffix(strings.Fields(args[0] + " ?")[0], ":"))
	if len(args) > 1 && slices.Contains([]string{"run", "proxy", "exporter", "prober"}, args[1]) {
		u.name = "http01-proxyd " + args[1]
	}
	node, err := exec.CommandContext(ctx, "ip", "netns", "identify", strconv.Itoa(pid)).Output()
	if err != nil {
		return u, fmt.Errorf("find the namespace of process %d: %w", pid, err)
	}
	u.node = strings.TrimSpace(string(node))
	if i := strings.LastIndexByte(u.node, '-'); i >= 0 {
		u.node = u.node[i+1:]
	}
	rollup, err := os.ReadFile(dir + "/smaps_rollup")
	if err != nil {
		return u, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	u.pss = field(string(rollup), "Pss:") << 10
	u.private = (field(string(rollup), "Private_Clean:") + field(string(rollup), "Private_Dirty:")) << 10
	threads, err := filepath.Glob(dir + "/task/*")
	if err != nil {
		return u, fmt.Errorf("list the threads of process %d: %w", pid, err)
	}
	for _, thread := range threads {
		status, err := os.ReadFile(thread + "/status")
		if err != nil {
			return u, fmt.Errorf("read a thread: %w", err)
		}
		u.wakeUps += field(string(status), "voluntary_ctxt_switches:") + field(string(status), "nonvoluntary_ctxt_switches:")
		times, err := os.ReadFile(thread + "/schedstat")
		if err != nil {
			return u, fmt.Errorf("read a thread: %w", err)
		}
		spent, _, _ := strings.Cut(string(times), " ")
		ns, err := strconv.ParseInt(spent, 10, 64)
		if err != nil {
			return u, fmt.Errorf("read the processor time of a thread: %w", err)
		}
		u.cpu += time.Duration(ns)
	}
	return u, nil
}

// field returns the number of a line such as "Pss:   123 kB", or 0.
func field(text, name string) int {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == name {
			n, _ := strconv.Atoi(words[1])
			return n
		}
	}
	return 0
}

// printTable prints a row for each process that was there the whole time.
func printTable(first, last map[int]usage, duration time.Duration) {
	var rows []usage
	for pid, u := range last {
		if earlier, ok := first[pid]; ok {
			u.wakeUps -= earlier.wakeUps
			u.cpu -= earlier.cpu
			rows = append(rows, u)
		}
	}
	slices.SortFunc(rows, func(a, b usage) int { return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.name, b.name)) })
	const mib = 1 << 20
	fmt.Printf("%-10s  %-24s  %10s  %8s  %8s  %11s\n", "node", "process", "wake-ups/s", "CPU ms/s", "Pss MiB",
		"private MiB")
	for _, u := range rows {
		fmt.Printf("%-10s  %-24s  %10.1f  %8.2f  %8.1f  %11.1f\n", u.node, u.name,
			float64(u.wakeUps)/duration.Seconds(), float64(u.cpu.Microseconds())/1000/duration.Seconds(),
			float64(u.pss)/mib, float64(u.private)/mib)
	}
}
