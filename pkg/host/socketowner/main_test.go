// SPDX-License-Identifier: Apache-2.0

//go:build linux

package socketowner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
)

const (
	// childMode makes the test binary a helper process.
	childMode = "HTTP01_PROXYD_HOLDER_CHILD"
	// promptExit keeps a helper with the race detector from sleeping at its end.
	promptExit = "GORACE=atexit_sleep_ms=0"
)

func TestMain(m *testing.M) {
	switch os.Getenv(childMode) {
	case "listen":
		os.Exit(childListen(os.Args[1], os.Args[2]))
	case "describe":
		os.Exit(childDescribe(os.Args[1]))
	}
	nstest.Main(m)
}

// childListen keeps one listener, or two that share the port, open until its standard input
// ends. It prints the port.
func childListen(network, address string) int {
	address, twice := strings.CutSuffix(address, " twice")
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		}), err)
	}}
	// Go's default is Multipath TCP if the kernel supports it.
	network, multipath := strings.CutPrefix(network, "mp")
	config.SetMultipathTCP(multipath)
	l, err := config.Listen(context.Background(), network, address)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer l.Close()
	port := netip.MustParseAddrPort(l.Addr().String()).Port()
	if twice {
		second, err := config.Listen(context.Background(), network, fmt.Sprintf(":%d", port))
		if err != nil {
			fmt.Println(err)
			return 1
		}
		defer second.Close()
	}
	fmt.Println(port)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// childDescribe prints the owner of a port.
func childDescribe(port string) int {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	owner, _, _ := DescribeTCPPort(uint16(n))
	fmt.Println(owner)
	return 0
}

// makeCgroup creates a cgroup below the mount point and removes it at the end of the test. ""
// is the root.
func makeCgroup(t testing.TB, path string) string {
	t.Helper()
	nstest.Require(t)
	root := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(root); err != nil {
		root = "/sys/fs/cgroup"
	}
	dir := root
	for name := range strings.SplitSeq(path, "/") {
		path := filepath.Join(dir, name)
		dir = path
		err := os.Mkdir(path, 0o755)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { removeCgroup(t, path) })
	}
	return dir
}

// removeCgroup waits until the last process of the cgroup ends.
func removeCgroup(t testing.TB, dir string) {
	t.Helper()
	nstest.Await(t, dir+" is removed", func() bool {
		err := unix.Rmdir(dir)
		return err == nil || errors.Is(err, unix.ENOENT)
	})
}

// listenerProcess is a process that listens.
type listenerProcess struct {
	pid  int
	port uint16
	stop func()
}

// startListener starts a listenerProcess in a cgroup. It ends with the test.
func startListener(t testing.TB, dir, network, address string) listenerProcess {
	t.Helper()
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe", network, address)
	cmd.Env = append(os.Environ(), childMode+"=listen", promptExit)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start a process in cgroup %s: %v", dir, err)
	}
	s := listenerProcess{pid: cmd.Process.Pid, stop: func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	}}
	t.Cleanup(s.stop)
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	port, err := strconv.ParseUint(lines.Text(), 10, 16)
	if err != nil {
		t.Fatalf("the listener printed %q", lines.Text())
	}
	s.port = uint16(port)
	return s
}

// describeAsUnit calls DescribeTCPPort as the service does under systemd: as a user of its
// own, with CAP_NET_ADMIN only.
func describeAsUnit(t testing.TB, port uint16) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", strconv.Itoa(int(port)))
	cmd.Env = []string{childMode + "=describe", promptExit}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: 64000, Gid: 64000},
		AmbientCaps: []uintptr{unix.CAP_NET_ADMIN},
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func commOf(t testing.TB, pid int) string {
	t.Helper()
	comm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(comm), "\n")
}
