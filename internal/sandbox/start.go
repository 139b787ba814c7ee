// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// unprivilegedID is the user and group that root's child gets: execve(2) would
// give the capabilities back to root. Nothing else has this number: systemd
// lists 65520 to 65533 as unused (docs/UIDS-GIDS.md).
const unprivilegedID = 65520

// Process is one that [Start] has started.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts cmd, whose SysProcAttr it sets: without capabilities (permitted,
// effective, ambient and, where a system-call filter does not forbid it,
// inheritable) and without a way to gain any (no_new_privs), as a user of its own if this process is
// root's, and killed by the kernel when this process ends. The file
// capabilities of the program are not honoured.
//
// CapBnd stays what it is: dropping from it takes CAP_SETPCAP
// (capabilities(7)), and with no_new_privs it gives nothing.
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

// run starts the process from a thread that has given its capabilities away as
// far as they would be inherited, and stays until the process ends: the
// parent-death signal follows that thread (prctl(2), PR_SET_PDEATHSIG). The
// thread is not unlocked, so that it ends with the goroutine.
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

// dropCapabilities makes this thread one whose children have no capability.
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
	// The unit's filter has no capset(2), since systemd counts it among the
	// privileged calls. What is inheritable is then all that stays: it takes a
	// program with file capabilities to make anything of it, and no_new_privs
	// ignores those (capabilities(7), prctl(2)).
	if err := unix.Capset(&header, &sets[0]); err != nil && (!errors.Is(err, unix.EPERM) || !hasFilter()) {
		return fmt.Errorf("clear the inheritable capabilities: %w", err)
	}
	return nil
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the process ended: nil for exit code 0. Call it after Ended.
func (p *Process) Err() error { return p.err }

// Kill ends the process.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", p.PID(), err)
	}
	return nil
}
