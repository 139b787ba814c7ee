// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// runOutside creates the namespaces around another process of this program and returns
// its exit code.
func runOutside() int {
	pass := notifySignals()
	// The parent-death signal follows the thread that forked (prctl(2)).
	runtime.LockOSThread()
	cmd := reexec(marker + "=" + strconv.Itoa(os.Getpid()))
	cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET
	if err := cmd.Start(); err != nil {
		return exitWithError("make the namespaces", err)
	}
	go forwardSignals(pass, cmd.Process)
	err := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	default:
		return exitWithError("run the tests in fresh namespaces", err)
	}
}

// runInit runs as process 1 of the namespace and starts the tests in a child. The kernel
// treats process 1 differently: signals that it does not handle are lost, and orphans
// become its children.
func runInit() int {
	pass := notifySignals()
	if err := setUp(); err != nil {
		return exitWithError("set the namespaces up", err)
	}
	runtime.LockOSThread()
	cmd := reexec()
	if err := cmd.Start(); err != nil {
		return exitWithError("run the tests", err)
	}
	go forwardSignals(pass, cmd.Process)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return exitWithError("wait for the tests", err)
		case pid != cmd.Process.Pid:
		case status.Signaled():
			return exitWithError("run the tests", fmt.Errorf("they were ended by signal %v", status.Signal()))
		default:
			return status.ExitStatus()
		}
	}
}

// reexec returns a command that runs this program again, with the same arguments and files.
func reexec(env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: unix.SIGKILL,
		// The group gets a signal such as Ctrl-C once, from here.
		Setpgid: true,
	}
	return cmd
}

// notifySignals receives the signals with which a person or `go test -timeout` ends tests.
func notifySignals() <-chan os.Signal {
	caught := make(chan os.Signal, 8)
	signal.Notify(caught, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP)
	return caught
}

// forwardSignals passes signals on to a process.
func forwardSignals(signals <-chan os.Signal, to *os.Process) {
	for s := range signals {
		_ = to.Signal(s)
	}
}

// setUp prepares the fresh namespaces for ordinary processes.
func setUp() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("set lo up: %w: %s", err, out)
	}
	return nil
}

func exitWithError(action string, err error) int {
	fmt.Fprintf(os.Stderr, "nstest: %s: %v\n", action, err)
	return 1
}
