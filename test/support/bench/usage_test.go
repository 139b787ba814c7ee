// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const text = "4242 (odd) name ) S 17 4242 4242 0 -1 4194560 1062 0 0 0 131 42 5 3 20 0 5 0 90 0 0\n"
	got, err := parseStat(text)
	must(t, err)
	if want := (stat{parent: 17, cpu: 1810 * time.Millisecond}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, bad := range []string{"", "1 (a) S 2", "1 (a) S x 1 1 0 -1 0 0 0 0 0 1 1 1 1 20"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func TestParsePss(t *testing.T) {
	got, err := parsePss("00400000-7fff0000 ---p 00000000 00:00 0 [rollup]\nRss:    9000 kB\nPss:    1234 kB\nPss_Dirty: 7 kB\n")
	if err != nil || got != 1234<<10 {
		t.Errorf("%d, %v", got, err)
	}
	if got, err := parsePss("Rss: 1 kB\n"); err == nil {
		t.Errorf("without Pss: %d", got)
	}
}

func TestParseMachineTime(t *testing.T) {
	got, err := parseMachineTime("cpu  100 10 200 9999 888 3 4 5 77 0\ncpu0 1 2\n")
	must(t, err)
	want := machineTime{user: 110 * tick, system: 200 * tick, softirq: 7 * tick, idle: 10887 * tick, steal: 5 * tick}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got.busy() != 3220*time.Millisecond {
		t.Errorf("busy for %v", got.busy())
	}
	for _, bad := range []string{"", "cpu 1 2 3", "cpu  x 10 200 9999 888 3 4 5 77 0\n"} {
		if got, err := parseMachineTime(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

// TestUsage holds that the client's time is what the proxy and the upstream leave of the
// benchmark's time.
func TestUsage(t *testing.T) {
	all := map[int]stat{
		1: {cpu: 1000}, 10: {parent: 1, cpu: 1}, // init and this program, which waited for the client
		20: {parent: 10, cpu: 20}, 21: {parent: 20, cpu: 200}, // the proxy and its child
		30: {parent: 10, cpu: 3000}, 99: {parent: 1, cpu: 5000}, // the upstream, and a foreign process
	}
	before := usageOf(all, 10, 20, 30)
	all[10], all[21], all[30] = stat{parent: 1, cpu: 41}, stat{parent: 20, cpu: 260}, stat{parent: 10, cpu: 3007}
	got := usageOf(all, 10, 20, 30).since(before)
	if want := (cpuUsage{proxy: 60, upstream: 7, own: 107}); got != want || got.client() != 40 {
		t.Errorf("%+v with a client of %d, want %+v", got, got.client(), want)
	}
	if got := usageOf(all, 10, 0); got.proxy != 0 || got.upstream != 0 {
		t.Errorf("without a process of the proxy: %+v", got)
	}
}

// TestFamily holds that a child's figures count for its parent, and those of unrelated
// processes do not.
func TestFamily(t *testing.T) {
	child := exec.CommandContext(t.Context(), "sleep", "60")
	must(t, child.Start())
	defer func() { _, _ = child.Process.Kill(), child.Wait() }()
	got, err := processTree(os.Getpid())
	must(t, err)
	for pid, want := range map[int]bool{os.Getpid(): true, child.Process.Pid: true, os.Getppid(): false} {
		if _, there := got[pid]; there != want {
			t.Errorf("process %d in the tree: %t, want %t", pid, there, want)
		}
	}
	own := &runningProxy{pid: child.Process.Pid}
	if bytes, err := own.pss(); err != nil || bytes == 0 {
		t.Errorf("memory of the child: %d, %v", bytes, err)
	}
	s, err := (&rig{}).spent(own)
	if err != nil || s.proxy > s.own || s.own > s.machine.busy() || s.machine.idle == 0 {
		t.Errorf("spent: %+v, %v", s, err)
	}
}
