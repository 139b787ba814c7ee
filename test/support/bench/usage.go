// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of times in /proc/<pid>/stat. USER_HZ is 100 on every Linux architecture
// that Go supports (proc_pid_stat(5)). The sum of user and system time is exact to one
// tick.
const tick = 10 * time.Millisecond

// stat holds the needed fields of /proc/<pid>/stat.
type stat struct {
	parent int
	cpu    time.Duration // of the process and of the children that it waited for
}

func parseStat(text string) (stat, error) {
	// The program's name in parentheses can contain any character.
	end := strings.LastIndexByte(text, ')')
	if end < 0 {
		return stat{}, fmt.Errorf("no program's name in %q", text)
	}
	words := strings.Fields(text[end+1:])
	if len(words) < 15 {
		return stat{}, fmt.Errorf("only %d fields in %q", len(words), text)
	}
	parent, err := strconv.Atoi(words[1])
	if err != nil {
		return stat{}, fmt.Errorf("read the parent: %w", err)
	}
	out := stat{parent: parent}
	for _, field := range words[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return stat{}, fmt.Errorf("read a time: %w", err)
		}
		out.cpu += time.Duration(n) * tick
	}
	return out, nil
}

// processes returns all processes of the machine.
func processes() (map[int]stat, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	all := map[int]stat{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it ended
		}
		if err != nil {
			return nil, fmt.Errorf("read a process: %w", err)
		}
		s, err := parseStat(string(text))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		all[id] = s
	}
	return all, nil
}

// processTree returns a process and its descendants.
func processTree(pid int) (map[int]stat, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	out := map[int]stat{}
	for id := range all {
		if isDescendant(all, id, pid) {
			out[id] = all[id]
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("process %d is gone", pid)
	}
	return out, nil
}

func isDescendant(all map[int]stat, id, from int) bool {
	for range len(all) {
		if id == from {
			return true
		}
		id = all[id].parent
	}
	return false
}

// cpuUsage is the CPU time that was used so far.
type cpuUsage struct {
	proxy time.Duration // of the proxy; zero for the kernel's DNAT
	own   time.Duration // of this program and its descendants, with proxy, upstream and client
	busy  time.Duration // of all cores, also for a hypervisor's other guests
}

func (u cpuUsage) since(earlier cpuUsage) cpuUsage {
	return cpuUsage{proxy: u.proxy - earlier.proxy, own: u.own - earlier.own, busy: u.busy - earlier.busy}
}

// spent returns the CPU time that a proxy and the machine used so far.
func (r *rig) spent(t *runningProxy) (out cpuUsage, err error) {
	all, err := processes()
	if err != nil {
		return out, err
	}
	for id, s := range all {
		if t.pid != 0 && isDescendant(all, id, t.pid) {
			out.proxy += s.cpu
		}
		if isDescendant(all, id, os.Getpid()) {
			out.own += s.cpu
		}
	}
	// proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal
	text, err := os.ReadFile("/proc/stat")
	words := strings.Fields(string(text))
	if err != nil || len(words) < 9 {
		return out, fmt.Errorf("read the CPU time of the machine: %w", err)
	}
	for i, field := range words[1:9] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return out, fmt.Errorf("read the CPU time of the machine: %w", err)
		}
		if i != 3 && i != 4 {
			out.busy += time.Duration(n) * tick
		}
	}
	return out, nil
}

// pss returns the proportional set size of the proxy's processes in bytes.
func (t *runningProxy) pss() (int, error) {
	if t.pid == 0 {
		return 0, nil
	}
	processes, err := processTree(t.pid)
	if err != nil {
		return 0, err
	}
	sum := 0
	for id := range processes {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", id))
		if id != t.pid && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)) {
			continue // the child exited
		}
		if err != nil {
			return 0, fmt.Errorf("read the memory of process %d: %w", id, err)
		}
		one, err := parsePss(string(text))
		if err != nil {
			return 0, fmt.Errorf("read the memory of process %d: %w", id, err)
		}
		sum += one
	}
	return sum, nil
}

func parsePss(text string) (int, error) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 3 && words[0] == "Pss:" && words[2] == "kB" {
			n, err := strconv.Atoi(words[1])
			return n << 10, err
		}
	}
	return 0, errors.New("smaps_rollup has no Pss")
}
