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
	// insideMarker marks the process inside the cell and contains the name of the cell's
	// cgroups.
	insideMarker = "HTTP01_HOST_CELL"
	cellDir      = "/run/http01-host"
)

// Cell is the set of PID, network and mount namespaces of the hosts. When its process ends,
// also by SIGKILL, the first process of the PID namespace ends. The kernel then kills every
// process in the cell and removes its mounts, links and files.
type Cell struct {
	dir    string // on the cell's own tmpfs
	cgroup string // the name of the cell's cgroup in every hierarchy
}

// Enclose runs this program again in a new cell and calls inside there. It returns the exit
// code. Before that, prepare runs outside, where it uses the machine's own network, and returns
// environment variables for the inside. main or TestMain must call Enclose first.
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
			fmt.Fprintln(os.Stderr, "start the cell:", err)
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
	// Nested cells that were killed may leave cgroups.
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

// runInside runs this program in new namespaces and forwards signals.
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
		// This process forwards a Ctrl-C once.
		Setpgid: true,
	}
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("create the cell: %w", err)
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

// runAsInit runs this program again as a child and reaps all orphaned processes until the
// child exits. Otherwise a command that outlives its nsenter(1) would stay a zombie of the
// host, and the host's first process would never end (pid_namespaces(7)).
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

// setUp prepares the new namespaces for processes.
func (c *Cell) setUp() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts from spreading: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// systemd-nspawn writes to /run/systemd, which is the cell's own here.
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	// squid names its shared memory after the lab. The names of labs contain process IDs, which
	// are not unique across cells.
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	if err := os.Mkdir(c.dir, 0o755); err != nil { //nolint:gosec // hosts' users look into it
		return fmt.Errorf("make the cell's directory: %w", err)
	}
	_, err := run(context.Background(), "ip", "link", "set", "lo", "up")
	return err
}

// Path returns the path of a file or directory of the cell.
func (c *Cell) Path(name string) string { return filepath.Join(c.dir, name) }
