// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	llsyscall "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
)

// unrestricted is no kind of child process: every access of TestLandlock must succeed.
const unrestricted = sandbox.Kind(0)

func landlockKinds() map[string]sandbox.Kind {
	return map[string]sandbox.Kind{
		"access as unrestricted process": unrestricted,
		"access as proxy":                sandbox.Proxy, "access as exporter": sandbox.Exporter,
		"access as prober": sandbox.Prober,
	}
}

// accessActions returns what this test program does as a child that Landlock restricts, by
// name. It has no system-call filter, which would deny the same.
func accessActions() map[string]func() int {
	actions := make(map[string]func() int)
	for name, kind := range landlockKinds() {
		actions[name] = func() int {
			o, err := newObjects()
			if err != nil {
				return exitCode(err)
			}
			if kind != unrestricted {
				err = sandbox.RestrictAccess(kind)
			}
			for _, a := range accesses() {
				if fault := a.judge(kind, o); fault != nil {
					err = errors.Join(err, fmt.Errorf("%s: %w", a.name, fault))
				}
			}
			return exitCode(err)
		}
	}
	return actions
}

// objects are what a process of the same user could use, made before the restriction.
type objects struct {
	dir, file string
	tcp       net.Listener
	udp       net.PacketConn
	abstract  net.Listener
	pathname  net.Listener
	other     *exec.Cmd // a process of the same user, which ends with this one
	otherIn   io.Closer // its standard input
}

func newObjects() (*objects, error) {
	o := &objects{dir: objectsDir(os.Getpid())}
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		return nil, err
	}
	o.file = filepath.Join(o.dir, "file")
	var errs [7]error
	errs[0] = os.WriteFile(o.file, []byte("content"), 0o600)
	o.tcp, errs[1] = net.Listen("tcp4", "127.0.0.1:0")
	o.udp, errs[2] = net.ListenPacket("udp4", "127.0.0.1:0")
	o.abstract, errs[3] = net.Listen("unix", fmt.Sprintf("@http01-landlock-%d", os.Getpid()))
	o.pathname, errs[4] = net.Listen("unix", filepath.Join(o.dir, "socket"))
	// Landlock also denies the signal that the kernel sends when a parent ends (prctl(2),
	// PR_SET_PDEATHSIG). The end of a pipe needs none.
	o.other = exec.Command("/proc/self/exe", "wait")
	o.otherIn, errs[5] = o.other.StdinPipe()
	errs[6] = o.other.Start()
	return o, errors.Join(errs[:]...)
}

// objectsDir returns the directory of a child's objects. The parent removes it, because
// Landlock denies that to the child. TMPDIR can be a directory that only root can use.
func objectsDir(pid int) string {
	return fmt.Sprintf("/tmp/http01-landlock-%d", pid)
}

// access is an act on objects.
type access struct {
	name    string
	since   int          // the version of Landlock from which it is denied
	allowed sandbox.Kind // the kinds of processes that need it
	try     func(*objects) error
}

// judge tries an access, and returns a fault unless it is denied or allowed as it must be.
func (a access) judge(kind sandbox.Kind, o *objects) error {
	err := a.try(o)
	denied := errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
	if kind == unrestricted || a.allowed&kind != 0 || landlockVersion() < a.since {
		return err
	}
	if !denied {
		return fmt.Errorf("%v, want a denial", err) //nolint:errorlint // may be nil
	}
	return nil
}

// landlockVersion returns the version of this kernel's Landlock, with which signals between
// threads of one process work (errata 2), or 0.
func landlockVersion() int {
	version, err := llsyscall.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	if fixed, err := llsyscall.LandlockGetErrata(); err != nil || fixed&2 == 0 {
		version = min(version, 5)
	}
	return version
}

func accesses() []access {
	open := func(flags int) func(*objects) error {
		return func(o *objects) error {
			fd, err := unix.Open(o.file, flags|unix.O_CLOEXEC, 0)
			_ = unix.Close(fd)
			return err
		}
	}
	dial := func(network string, address func(*objects) net.Addr) func(*objects) error {
		return func(o *objects) error {
			conn, err := net.Dial(network, address(o).String())
			if err == nil {
				_, err = conn.Write([]byte("x"))
				_ = conn.Close()
			}
			return err
		}
	}
	bind := func(kind int) func(*objects) error {
		return func(*objects) error {
			fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Bind(fd, &unix.SockaddrInet4{Addr: netip.MustParseAddr("127.0.0.1").As4()})
		}
	}
	return []access{
		{"read a file", 1, 0, open(unix.O_RDONLY)},
		{"write a file", 1, 0, open(unix.O_WRONLY)},
		{"truncate a file", 3, 0, func(o *objects) error { return unix.Truncate(o.file, 0) }},
		{"list a directory", 1, 0, func(*objects) error { _, err := os.ReadDir("/"); return err }},
		{"read /proc", 1, 0, func(*objects) error { _, err := os.ReadFile("/proc/self/status"); return err }},
		{"make a directory", 1, 0, func(o *objects) error { return os.Mkdir(filepath.Join(o.dir, "new"), 0o700) }},
		{"make a symbolic link", 1, 0, func(o *objects) error { return os.Symlink("x", filepath.Join(o.dir, "link")) }},
		{"make a socket in the file system", 1, 0, func(o *objects) error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(o.dir, "new-socket")})
		}},
		{"run a program", 1, 0, func(*objects) error { return exec.Command("/proc/self/exe", "status").Run() }},
		{"remove a file", 1, 0, func(o *objects) error { return os.Remove(o.file) }},
		// Debian's Linux 6.1 for arm64 (version 2) permits it, 6.18 (version 7) denies it.
		// Kernels between them were not tried.
		{"read the memory of another process", 7, 0, func(o *objects) error {
			// Address 0 is not mapped: EFAULT means that the kernel permits the call.
			remote := []unix.RemoteIovec{{Base: 0, Len: 1}}
			local := unix.Iovec{Base: new(byte)}
			local.SetLen(1)
			_, err := unix.ProcessVMReadv(o.other.Process.Pid, []unix.Iovec{local}, remote, 0)
			if errors.Is(err, unix.EFAULT) {
				return nil
			}
			return err
		}},
		{"bind a TCP port", 4, 0, bind(unix.SOCK_STREAM)},
		{
			"connect to a TCP port", 4, sandbox.Proxy | sandbox.Prober,
			dial("tcp4", func(o *objects) net.Addr { return o.tcp.Addr() }),
		},
		{"connect to an abstract Unix socket", 6, 0, dial("unix", func(o *objects) net.Addr { return o.abstract.Addr() })},
		{"signal another process", 6, 0, func(o *objects) error { return unix.Kill(o.other.Process.Pid, 0) }},
		{
			"connect to a Unix socket in the file system", 9, 0,
			dial("unix", func(o *objects) net.Addr { return o.pathname.Addr() }),
		},
		{"bind a UDP port", 10, sandbox.Prober, bind(unix.SOCK_DGRAM)},
		{"send a datagram", 10, sandbox.Prober, dial("udp4", func(o *objects) net.Addr { return o.udp.LocalAddr() })},
	}
}

// TestLandlock: Landlock alone denies each kind of child process what it does not need.
// A kernel denies less the older its Landlock is.
func TestLandlock(t *testing.T) {
	t.Parallel()
	t.Logf("Landlock's version: %d", landlockVersion())
	for action := range landlockKinds() {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			p, out := startChild(t, action)
			<-p.Done()
			if err := errors.Join(p.Err(), os.RemoveAll(objectsDir(p.PID()))); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
