// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unprivilegedID is the user and group ID of a child of root: with root's ID, execve(2)
// would restore the capabilities. systemd lists 65520 to 65533 as unused
// (docs/UIDS-GIDS.md).
const unprivilegedID = 65520

// Process is a process that [Start] started.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts cmd, whose SysProcAttr it sets, without capabilities (permitted, effective,
// ambient and, unless a system-call filter forbids capset(2), inheritable) and with
// no_new_privs. File capabilities of the program have no effect. A child of root gets its own
// user. The kernel kills the process when this process ends.
//
// CapBnd is not changed: dropping from it requires CAP_SETPCAP (capabilities(7)), and
// with no_new_privs it grants nothing.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: unprivilegedID, Gid: unprivilegedID}
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	return p, <-started
}

// timerSlack is the kernel's default. The unit has more for the controller (TimerSlackNSec=). A
// process with several processors must not have it: before a thread of Go's runtime takes the
// next goroutine of another one, it sleeps for 3 µs (runqgrab in runtime/proc.go).
const timerSlack = uintptr(50 * time.Microsecond)

// run starts the process from a thread that dropped the inheritable capabilities and has the
// default timer slack, and returns when the process ended: the parent-death signal follows that
// thread (prctl(2), PR_SET_PDEATHSIG). The thread stays locked, so that it ends with the goroutine.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The main thread cannot be ended, and /proc shows it as the process.
		go p.run(started)
		<-p.done
		runtime.UnlockOSThread()
		return
	}
	err := dropCapabilities()
	if err == nil {
		if err = unix.Prctl(unix.PR_SET_TIMERSLACK, timerSlack, 0, 0, 0); err != nil {
			err = fmt.Errorf("set the timer slack: %w", err)
		}
	}
	if err == nil {
		childProcesses.Lock()
		if err = p.cmd.Start(); err == nil {
			childProcesses.pids[p.PID()] = true
		}
		childProcesses.Unlock()
	}
	if err != nil {
		close(p.done)
		started <- err
		return
	}
	started <- nil
	p.err = p.cmd.Wait()
	childProcesses.Lock()
	delete(childProcesses.pids, p.PID())
	childProcesses.Unlock()
	killOrphans()
	close(p.done)
}

// dropCapabilities drops every capability that a child of this thread would inherit.
func dropCapabilities() error {
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear the ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("read the capabilities: %w", err)
	}
	sets[0].Inheritable, sets[1].Inheritable = 0, 0
	// The unit's filter forbids capset(2), which systemd counts among the privileged
	// calls. The inheritable set then stays. It has an effect only on a program with
	// file capabilities, and no_new_privs disables those (capabilities(7), prctl(2)).
	if err := unix.Capset(&header, &sets[0]); err != nil && (!errors.Is(err, unix.EPERM) || !hasFilter()) {
		return fmt.Errorf("clear the inheritable capabilities: %w", err)
	}
	return nil
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the process ended: nil for exit code 0. Call it after Done is closed.
func (p *Process) Err() error { return p.err }

// Kill kills the process.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", p.PID(), err)
	}
	return nil
}
