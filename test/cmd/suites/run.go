// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// runVariable is in the environment of every process of a run and identifies processes
	// that outlive it.
	runVariable = "HTTP01_TEST_RUN"
	// groupVariable names a directory that the processes of one suite share;
	// groupSizeVariable has their number.
	groupVariable     = "HTTP01_TEST_GROUP"
	groupSizeVariable = "HTTP01_TEST_GROUP_SIZE"

	// startupAllowance is the time that a process may take before and after its tests.
	startupAllowance = 5 * time.Minute
	// cleanupTimeout is the time for a process to clean up after a signal.
	cleanupTimeout = 2 * time.Minute
)

// result has the events, the error and the times of an ended process.
type result struct {
	process *process
	events  []event
	err     error // the exit status or signal, unless the exit code is 0
	begin   time.Time
	wall    time.Duration
	cpu     time.Duration // user and system time, with the children that it waited for
}

// runner runs processes.
type runner struct {
	root  string
	tmp   string // the run's own directory
	id    string // the run's name in runVariable
	cover string // directory for coverage data; none when empty

	number atomic.Int64
}

// run runs one process to its end. When ctx ends first, the process gets SIGINT and cleans
// up.
func (r *runner) run(ctx context.Context, p *process) result {
	res := result{process: p, begin: time.Now()}
	// The path is short because a socket path has at most 107 bytes (unix(7)).
	dir := filepath.Join(r.tmp, strconv.FormatInt(r.number.Add(1), 10))
	cmd, err := r.command(p, dir)
	if err != nil {
		res.err = err
		return res
	}
	// A file does not wait for processes that outlive the tests. The run reports them at its end.
	out, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		res.err = fmt.Errorf("create a file for the output of %s: %w", p.name(), err)
		return res
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	res.err = startAndWait(ctx, cmd, p.timeout)
	res.wall = time.Since(res.begin)
	if cmd.ProcessState != nil {
		res.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	var convertErr error
	res.events, convertErr = convert(p, out.Name())
	res.err = errors.Join(res.err, convertErr)
	return res
}

// command returns the command of a process.
func (r *runner) command(p *process, dir string) (*exec.Cmd, error) {
	args := append([]string{p.binary}, p.arguments()...)
	if p.command != nil {
		args = p.command
	}
	if r.cover != "" && p.command == nil {
		args = append(args, "-test.gocoverdir="+r.cover)
	}
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // startAndWait ends it in order
	cmd.Dir = filepath.Join(r.root, p.pack.dir)
	tmp := filepath.Join(dir, "t")
	if err := os.MkdirAll(tmp, 0o755); err != nil { //nolint:gosec // tests let other users through, as /tmp does
		return nil, fmt.Errorf("make a directory for %s: %w", p.name(), err)
	}
	group := filepath.Join(r.tmp, "group-"+strings.ReplaceAll(p.pack.dir, "/", "-"))
	if err := os.MkdirAll(group, 0o750); err != nil {
		return nil, fmt.Errorf("make a directory for %s: %w", p.name(), err)
	}
	cmd.Env = append(environment(p.pack.module),
		"PWD="+cmd.Dir, "TMPDIR="+tmp, runVariable+"="+r.id,
		groupVariable+"="+group, groupSizeVariable+"="+strconv.Itoa(p.group),
		// By default, programs with the race detector sleep one second before they exit.
		"GORACE=atexit_sleep_ms=0")
	// The process has its own group: this program forwards signals once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	return cmd, nil
}

// startAndWait runs a command on its own thread, because the parent-death signal follows
// the thread that forked (prctl(2)). A command that exceeds its time gets SIGQUIT, and Go
// prints its goroutines. The timeout of the testing package does not include the time
// before and after the tests.
func startAndWait(ctx context.Context, cmd *exec.Cmd, timeout time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		stop := unix.SIGINT // like a terminal: to the process and its children
		select {
		case <-over:
			return
		case <-ctx.Done():
		case <-time.After(timeout + startupAllowance):
			stop = unix.SIGQUIT
		}
		_ = unix.Kill(-cmd.Process.Pid, stop)
		select {
		case <-over:
		case <-time.After(cleanupTimeout):
			_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		}
	}()
	err := cmd.Wait()
	if ctx.Err() != nil {
		return errors.Join(err, awaitGroup(cmd.Process.Pid))
	}
	return err
}

// awaitGroup waits until the last process of a group has ended after a signal.
func awaitGroup(group int) error {
	for deadline := time.Now().Add(cleanupTimeout); unix.Kill(-group, 0) == nil; {
		if time.Now().After(deadline) {
			return unix.Kill(-group, unix.SIGKILL)
		}
		<-time.After(50 * time.Millisecond)
	}
	return nil
}

// convert reads the output of a test program and returns it as events.
func convert(p *process, output string) ([]event, error) {
	file, err := os.Open(output)
	if err != nil {
		return nil, fmt.Errorf("read the output of %s: %w", p.name(), err)
	}
	defer func() { _ = file.Close() }()
	//nolint:noctx // the output of an interrupted process too
	cmd := exec.Command("go", "tool", "test2json", "-t", "-p", p.pack.path)
	cmd.Stdin = file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("convert the output of %s: %w", p.name(), err)
	}
	return readEvents(text)
}

// event is one line of test2json (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

func readEvents(text []byte) (events []event, err error) {
	for line := range bytes.Lines(text) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return events, fmt.Errorf("read the line %.200q of test2json: %w", line, err)
		}
		events = append(events, e)
	}
	return events, nil
}
