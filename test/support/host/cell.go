// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// insideMarker says that this process is the one in the cell, and names
	// the cell's cgroups.
	insideMarker = "HTTP01_HOST_CELL"
	cellDir      = "/run/http01-host"
)

// Cell is what encloses the hosts: PID, network and mount namespaces. Their
// first process waits for this one; when it ends, be it by a SIGKILL, the kernel
// ends every process in the cell and drops its mounts, links and files.
type Cell struct {
	dir    string // on a tmpfs of the cell's own
	cgroup string // the name of the cell's cgroup in every hierarchy
}

// Enclose runs this program again in a fresh cell and there calls inside; it
// returns the exit code. Outside, before that, prepare does what needs the
// machine's own network and returns environment variables for the inside. It
// is to be called by main or TestMain before anything else.
//
// SIGINT, SIGTERM and SIGQUIT end the cell.
func Enclose(prepare func(context.Context) ([]string, error), inside func(*Cell) int) int {
	name := os.Getenv(insideMarker)
	if name == "" {
		code, err := enclose(prepare)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return code
	}
	if os.Getpid() == 1 {
		code, err := runAsInit()
		if err != nil {
			fmt.Fprintln(os.Stderr, "begin the cell:", err)
		}
		return code
	}
	c := &Cell{dir: cellDir, cgroup: name}
	if err := c.setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "set the cell up:", err)
		return 1
	}
	return inside(c)
}

func enclose(prepare func(context.Context) ([]string, error)) (code int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT)
	defer signal.Stop(signals)
	env, err := interruptible(signals, prepare)
	if err != nil {
		return 1, err
	}
	if err := sweepCgroups(); err != nil {
		return 1, err
	}
	name, lock, err := claimCgroups()
	if err != nil {
		return 1, err
	}
	defer func() { _ = lock.Close() }()
	code, err = runInside(signals, append(env, insideMarker+"="+name))
	// Within this cell may have been others that were killed.
	return code, errors.Join(err, removeCgroups(context.Background(), name), sweepCgroups())
}

// interruptible runs prepare with a context that ends at the first signal.
func interruptible(signals <-chan os.Signal, prepare func(context.Context) ([]string, error)) ([]string, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case s := <-signals:
			cancel(fmt.Errorf("got signal %v", s))
		case <-ctx.Done():
		}
	}()
	return prepare(ctx)
}

// runInside runs this program in fresh namespaces and passes signals on.
func runInside(signals <-chan os.Signal, env []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 1, fmt.Errorf("find this program: %w", err)
	}
	// The parent-death signal follows the thread that forked (prctl(2)).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(self, os.Args[1:]...) //nolint:noctx,gosec // this very program; ends by itself or by a signal that is passed on
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		Pdeathsig:  unix.SIGKILL,
		// A Ctrl-C reaches it once, from here.
		Setpgid: true,
	}
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("make the cell: %w", err)
	}
	defer forwardSignals(signals, cmd.Process)()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 1, fmt.Errorf("in the cell: %w", err)
	}
	return 0, nil
}

// forwardSignals sends the signals to the process until the returned function is called.
func forwardSignals(signals <-chan os.Signal, to *os.Process) (end func()) {
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				_ = to.Signal(s)
			case <-ended:
				return
			}
		}
	}()
	return func() { close(ended) }
}

// runAsInit runs this program once more, as a child, and takes the ends of all
// processes that have lost their parent, until the child's own. Without, a
// command that was entered into a host and outlived the nsenter(1) that started
// it would stay a zombie of that host, whose first process then never ends
// (pid_namespaces(7)).
func runAsInit() (code int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT)
	self, err := os.Executable()
	if err != nil {
		return 1, fmt.Errorf("find this program: %w", err)
	}
	child, err := os.StartProcess(self, os.Args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}}) //nolint:gosec // this very program
	if err != nil {
		return 1, fmt.Errorf("run this program again: %w", err)
	}
	defer forwardSignals(signals, child)()
	for {
		var status unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 1, fmt.Errorf("wait for processes: %w", err)
		case pid != child.Pid:
		case status.Signaled():
			return 1, fmt.Errorf("ended by signal %v", status.Signal())
		default:
			return status.ExitStatus(), nil
		}
	}
}

// setUp gives the fresh namespaces what a process expects of them.
func (c *Cell) setUp() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts from spreading: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// systemd-nspawn keeps files in /run/systemd; here they are the cell's.
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	// squid names its shared memory by the lab, and labs are named by processes' ids,
	// of which a cell has its own.
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	if err := os.Mkdir(c.dir, 0o755); err != nil { //nolint:gosec // hosts' users look into it
		return fmt.Errorf("make the cell's directory: %w", err)
	}
	_, err := run(context.Background(), "ip", "link", "set", "lo", "up")
	return err
}

// Path is where the cell keeps a file or directory of that name.
func (c *Cell) Path(name string) string { return filepath.Join(c.dir, name) }
