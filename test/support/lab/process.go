// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a long-running program on a node. Its output goes to a file.
type Process struct {
	Name    string    // name of the log
	Log     string    // path of the output file
	Started time.Time // time before the fork

	node   *Node
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // result of Wait; valid after exited is closed
}

// Command describes a program for Start.
type Command struct {
	Name string   // name for the log and messages
	Path string   // path of the program
	Args []string // without the program's name
	Env  []string // additions to this process's environment

	Files []*os.File // descriptors from 3 on

	TimerSlack time.Duration // as of TimerSlackNSec= of a unit; 0: the kernel's default

	// Output is the open log that other processes write too; nil: the process opens its own.
	Output *os.File
}

// Start runs a program on the node. The kernel kills it when the lab's process ends.
func (n *Node) Start(c Command) (*Process, error) {
	p := &Process{node: n, Name: c.Name, Log: filepath.Join(n.Dir, c.Name+".log"), exited: make(chan struct{})}
	log := c.Output
	if log == nil {
		var err error
		if log, err = os.OpenFile(p.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
			return nil, fmt.Errorf("open the log of %s: %w", c.Name, err)
		}
		defer func() { _ = log.Close() }()
	}
	p.cmd = exec.Command(c.Path, c.Args...) //nolint:noctx // lives until Stop, Kill or the lab's end
	p.cmd.Dir = n.Dir
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = log, log, c.Files
	// Its own process group: the lab ends its processes in order after a Ctrl-C.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	err := n.thread.do(func() error {
		p.Started = time.Now()
		if err := setTimerSlack(c.TimerSlack); err != nil {
			return err
		}
		return errors.Join(p.cmd.Start(), setTimerSlack(0))
	})
	if err != nil {
		return nil, fmt.Errorf("start %s on %s: %w", c.Name, n.Name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	n.mu.Lock()
	n.processes = append(n.processes, p)
	n.mu.Unlock()
	return p, nil
}

// setTimerSlack sets the timer slack of this thread, which the processes that it starts inherit.
func setTimerSlack(slack time.Duration) error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0); err != nil { //nolint:gosec // not negative
		return fmt.Errorf("set the timer slack: %w", err)
	}
	return nil
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// ProcessorTime returns the processor time of an exited process and of the children that it
// waited for.
func (p *Process) ProcessorTime() time.Duration {
	<-p.exited
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// Exited returns a channel that is closed when the process exited.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Alive returns a final error for Eventually when the process exited.
func (p *Process) Alive() error {
	select {
	case <-p.exited:
		return final(fmt.Errorf("%s exited: %w\n%s", p.Name, errors.Join(p.err, errEnded), p.Tail(20)))
	default:
		return nil
	}
}

// errEnded reports an exit with status 0 as an error where none was expected.
var errEnded = errors.New("exited unexpectedly")

// Signal sends a signal to the process only.
func (p *Process) Signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// Stop sends SIGTERM and waits. It returns an error unless the process exits with status 0.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.Signal(unix.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.Wait(ctx)
}

// End is Stop for a process that may already be gone.
func (p *Process) End(ctx context.Context) error {
	select {
	case <-p.exited:
		return nil
	default:
		return p.Stop(ctx)
	}
}

// Kill sends SIGKILL to the process only and waits.
func (p *Process) Kill(ctx context.Context) error {
	if err := p.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.reap(ctx)
}

// Wait waits for the process to exit. It returns an error unless the status is 0.
func (p *Process) Wait(ctx context.Context) error {
	if err := p.reap(ctx); err != nil {
		return err
	}
	if p.err != nil {
		return fmt.Errorf("%s ended: %w\n%s", p.Name, p.err, p.Tail(20))
	}
	return nil
}

// reap waits until the process exits, whatever its status.
func (p *Process) reap(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, eventuallyTimeout)
	defer cancel()
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s (process %d) did not exit: %w", p.Name, p.PID(), context.Cause(ctx))
	}
}

// drop removes an exited process and its log from later reports.
func (p *Process) drop() {
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	p.node.processes = slices.DeleteFunc(p.node.processes, func(q *Process) bool { return q == p })
}

// Tail returns the last lines of the process's output.
func (p *Process) Tail(lines int) string { return tail(p.Log, lines) }

func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
