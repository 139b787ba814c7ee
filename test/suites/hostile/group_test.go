// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// group is a control group with settings of the unit. Where systemd does not run, the unit's
// own have no effect.
type group struct {
	*testing.T
	dir string
}

// newGroup creates a group that a controller of the kernel limits, with files of version 1 or
// 2 (Documentation/admin-guide/cgroup-v1, cgroup-v2.rst).
func newGroup(t *testing.T, controller string, v1, v2 map[string]string) *group {
	t.Helper()
	root, files := filepath.Join("/sys/fs/cgroup", controller), v1
	if _, err := os.Stat(root); err != nil {
		root, files = "/sys/fs/cgroup", v2
		must(t, os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+controller), 0))
	}
	g := &group{t, filepath.Join(root, fmt.Sprintf("http01-hostile-%d", os.Getpid()))}
	must(t, os.Mkdir(g.dir, 0o755))
	t.Cleanup(func() {
		must(t, lab.Eventually(context.Background(), "the group is empty", func(context.Context) error {
			return unix.Rmdir(g.dir)
		}))
	})
	for name, value := range files {
		must(t, os.WriteFile(filepath.Join(g.dir, name), []byte(value), 0))
	}
	return g
}

// start starts the service in the group. A child process attacks that name names.
func (g *group) start(name, config string) *service {
	g.Helper()
	return startWrapped(g.T, []string{
		"bash", "-c", `echo $$ >"$0" && name=$1 && shift && exec -a "$name" "$@"`,
		filepath.Join(g.dir, "cgroup.procs"), name,
	}, shared.binary, config)
}

// run runs a command in the group.
func (g *group) run(command string) {
	g.Helper()
	enter := "echo $$ >'" + filepath.Join(g.dir, "cgroup.procs") + "' && "
	out, err := exec.Command("sh", "-c", enter+command).CombinedOutput()
	if err != nil {
		g.Logf("%s: %v\n%s", command, err, out)
	}
}

// unitSetting returns a number of the unit.
func unitSetting(t *testing.T, name, suffix string) int {
	t.Helper()
	text, err := os.ReadFile("../../../systemd/http01-proxyd.service")
	must(t, err)
	found := regexp.MustCompile(`(?m)^` + name + `=([0-9]+)` + suffix + `$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("the unit has no %s=", name)
	}
	n, err := strconv.Atoi(string(found[1]))
	must(t, err)
	return n
}

func memoryGroup(t *testing.T) *group {
	t.Helper()
	limit := strconv.Itoa(unitSetting(t, "MemoryMax", "M") << 20)
	return newGroup(t, "memory",
		map[string]string{"memory.limit_in_bytes": limit, "memory.swappiness": "0"},
		map[string]string{"memory.max": limit, "memory.swap.max": "0"})
}

// processorGroup has the quota of the unit.
func processorGroup(t *testing.T) *group {
	t.Helper()
	quota := strconv.Itoa(unitSetting(t, "CPUQuota", "%") * 1000)
	return newGroup(t, "cpu",
		map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": quota},
		map[string]string{"cpu.max": quota + " 100000"})
}

// everything has an exporter, and a prober that stays.
func everything() string {
	return shared.lab.ControlPlane[0].DefaultConfig() +
		"hosts: [api.example.com]\nmetrics:\n  listenAddress: 127.0.0.1:9645\nselfTest:\n  interval: 10s\n"
}

// awaitProxy waits until each kind of child process works, and returns the process ID of the
// proxy.
func (s *service) awaitProxy() int {
	s.Helper()
	_, err := s.Await(s.Context(), "an exporter and a prober that answer", func(status lab.Status) error {
		if !status.Metrics.Served || len(status.SelfTests) == 0 {
			return fmt.Errorf("metrics %+v, self-tests %+v", status.Metrics, status.SelfTests)
		}
		return nil
	})
	must(s.T, err)
	proxy, err := s.Child("proxy")
	must(s.T, err)
	return proxy
}

// TestOtherMemory (A7) holds that a child process takes no memory that is not its data, as far
// as the limits of processes reach: the proxy process of a hostile exporter stays the same.
func TestOtherMemory(t *testing.T) {
	for _, child := range []string{"exporter", "prober"} {
		t.Run(child, func(t *testing.T) {
			s := memoryGroup(t).start("http01-proxyd:"+child+":other-memory", everything())
			s.expectServing()
			proxy := s.awaitProxy()
			s.expectRefused("shared memory", "memory that grows down", "huge pages")
			for what, limit := range map[string]int{"GiB of addresses": 4, "watches": 128 * 128} {
				found := regexp.MustCompile(`ATTACK: (\d+) ` + what).FindStringSubmatch(s.log())
				if found == nil {
					t.Fatalf("the attack reported no %s", what)
				}
				if n, err := strconv.Atoi(found[1]); err != nil || n == 0 || n > limit {
					t.Errorf("%s %s, want at most %d, and some", found[1], what, limit)
				}
			}
			s.expectServing()
			if now, err := s.Child("proxy"); err != nil || now != proxy {
				t.Errorf("the proxy process is %d, %v, and was %d", now, err, proxy)
			}
		})
	}
}

// TestFirstKilled (A7) holds that the kernel ends the exporter first when the unit's memory
// runs out, then the prober, then the proxy, and that the controller recovers. The memory
// belongs to files, and thus to no process.
func TestFirstKilled(t *testing.T) {
	g := memoryGroup(t)
	s := g.start("http01-proxyd", everything())
	s.expectServing()
	s.awaitProxy()
	file := fmt.Sprintf("/dev/shm/http01-hostile-%d", os.Getpid())
	remove := sync.OnceFunc(func() { must(t, os.RemoveAll(file)) })
	t.Cleanup(remove)
	messages, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(messages)
	_, err = unix.Seek(messages, 0, io.SeekEnd)
	must(t, err)
	kinds := make(map[int]string) // of processes that run or ran
	var killed []string           // kinds in the order of their first ends
	for range unitSetting(t, "MemoryMax", "M") {
		for _, pid := range lab.Children(s.PID()) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if fields := strings.Split(string(line), "\x00"); len(fields) > 1 {
				kinds[pid] = fields[1]
			}
		}
		g.run("exec dd if=/dev/zero of=" + file + " bs=512k count=2 oflag=append conv=notrunc status=none")
		for _, pid := range killedProcesses(messages) {
			if kind := kinds[pid]; kind != "" && !slices.Contains(killed, kind) {
				killed = append(killed, kind)
			}
		}
		if slices.Contains(killed, "proxy") {
			break
		}
	}
	if got := strings.Join(killed, ", "); got != "exporter, prober, proxy" {
		t.Errorf("killed: %s; want exporter, prober, proxy", got)
	}
	must(t, s.Alive())
	remove()
	// After three exits within a minute, the condition stays ProxyUnavailable for a minute.
	must(t, lab.Within(t.Context(), 2*time.Minute, "Serving", func(ctx context.Context) error {
		_, err := s.AwaitReason(ctx, "Serving")
		return err
	}))
	s.expectServing()
}

// killedProcesses returns the processes that the kernel killed for lack of memory since
// the last call, in order. A read returns one message (Documentation/ABI/testing/dev-kmsg).
func killedProcesses(messages int) (pids []int) {
	for message := make([]byte, 8<<10); ; {
		n, err := unix.Read(messages, message)
		if errors.Is(err, unix.EPIPE) { // messages were lost
			continue
		}
		if err != nil {
			return pids
		}
		if found := regexp.MustCompile(`Killed process (\d+) `).FindSubmatch(message[:n]); found != nil {
			pid, _ := strconv.Atoi(string(found[1]))
			pids = append(pids, pid)
		}
	}
}

// TestProcessorQuota (A11) holds that 300 validations at once succeed with the unit's quota of
// processor time, and that a hostile proxy gets no more than the quota.
func TestProcessorQuota(t *testing.T) {
	t.Run("validations", func(t *testing.T) {
		// All come from one source, and the test may get little processor time itself.
		s := processorGroup(t).start("http01-proxyd", shared.lab.ControlPlane[0].DefaultConfig()+
			"limits:\n  perSource: 0\n  headTimeout: 1m\n")
		s.expectServing()
		const token = "quota"
		solver, err := shared.lab.Solve(t.Context(), "api.example.com", token, token+".key")
		must(t, err)
		defer func() { must(t, solver.Remove(context.Background())) }()
		var all sync.WaitGroup
		begin := time.Now()
		for range 300 {
			all.Go(func() {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
					"http://"+shared.lab.API.V4.String()+"/.well-known/acme-challenge/"+token, nil)
				must(t, err)
				request.Host = "api.example.com"
				answer, err := shared.lab.Internet.Client().Do(request)
				if err != nil {
					t.Error(err)
					return
				}
				if answer.Body.Close(); answer.StatusCode != http.StatusOK {
					t.Errorf("a validation got %d", answer.StatusCode)
				}
			})
		}
		all.Wait()
		t.Logf("300 validations took %v", time.Since(begin))
	})
	t.Run("hostile proxy", func(t *testing.T) {
		s := processorGroup(t).start("http01-proxyd:proxy:processors", "")
		s.expectServing()
		proxy, err := s.Child("proxy")
		must(t, err)
		begin, before := time.Now(), processorTime(t, proxy)
		// Long enough for many periods of the quota, and for the controller to notice.
		for range 10 {
			if _, err := s.StatusJSON(t.Context()); err != nil {
				t.Error(err)
			}
			<-time.After(time.Second)
		}
		used := (processorTime(t, proxy) - before).Seconds() / time.Since(begin).Seconds()
		t.Logf("the proxy used %.0f %% of a processor", used*100)
		if limit := float64(unitSetting(t, "CPUQuota", "%")) / 100; used > limit*1.1 || used == 0 {
			t.Errorf("the proxy used %.2f processors, of %.2f", used, limit)
		}
		s.expectServing()
	})
}

// processorTime returns the processor time of a process (proc_pid_stat(5)).
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	user, err := strconv.Atoi(fields[14-3])
	system, err2 := strconv.Atoi(fields[15-3])
	must(t, errors.Join(err, err2))
	return time.Duration(user+system) * 10 * time.Millisecond
}
