// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		if action, ok := childActions()[os.Args[1]]; ok {
			os.Exit(action())
		}
	}
	os.Exit(m.Run())
}

// childActions returns what this program does as a child, by name.
func childActions() map[string]func() int {
	actions := map[string]func() int{
		"status": func() int {
			text, err := os.ReadFile("/proc/self/status")
			fmt.Print(string(text))
			return exitCode(err)
		},
		"confined": runConfined,
		"sleep":    func() int { <-time.After(time.Hour); return 0 },
		"wait":     func() int { _, err := io.Copy(io.Discard, os.Stdin); return exitCode(err) },
		"fail":     func() int { return 3 },
	}
	maps.Copy(actions, sandbox.ForbiddenActions())
	maps.Copy(actions, accessActions())
	return actions
}

func exitCode(err error) int {
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// runConfined tries calls that the proxy does not need, and then those that it needs.
func runConfined() int {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return exitCode(err)
	}
	if err := sandbox.Confine(sandbox.Proxy); err != nil {
		return exitCode(err)
	}
	_, _, filter := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, 0)
	_, opened := os.Open("/etc/passwd")
	_, socket := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	_, netlink := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0)
	for action, err := range map[string]error{
		"a second filter":  filter,
		"open a file":      opened,
		"a unix socket":    socket,
		"a netlink socket": netlink,
		"run a program":    unix.Exec("/bin/true", []string{"true"}, nil),
		"signal another":   unix.Kill(os.Getppid(), 0),
		"signal a thread":  unix.Tgkill(os.Getppid(), os.Getppid(), 0),
		"have it signalled": func() error {
			_, err := unix.FcntlInt(0, unix.F_SETOWN, os.Getppid())
			return err
		}(),
		"trace":            unix.PtraceAttach(os.Getppid()),
		"change the user":  unix.Setuid(0),
		"make a directory": os.Mkdir("/tmp/http01-proxyd-sandbox", 0o700),
	} {
		if !errors.Is(err, unix.EPERM) {
			return exitCode(fmt.Errorf("%s: %v, want EPERM", action, err)) //nolint:errorlint // may be nil
		}
	}
	return exitCode(exchangeBytes(ln))
}

// exchangeBytes opens connections and uses many threads, which must work.
func exchangeBytes(ln net.Listener) error {
	echoed := make(chan error, 64)
	for range cap(echoed) {
		go func() {
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				echoed <- err
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			_, err = fmt.Fprint(conn, "x")
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			echoed <- err
		}()
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				b := make([]byte, 1)
				if _, err := conn.Read(b); err == nil {
					_, _ = conn.Write(b)
				}
			}()
		}
	}()
	for range cap(echoed) {
		if err := <-echoed; err != nil {
			return err
		}
	}
	return nil
}

func startChild(t *testing.T, action string) (*sandbox.Process, *strings.Builder) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		requireExecutable(t, exe)
	}
	cmd := exec.Command("/proc/self/exe", action)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := sandbox.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p, &out
}

// requireExecutable requires that others can run the file: a child of root is another user.
func requireExecutable(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o001 == 0 {
		t.Fatalf("%s cannot be run by others: %v", path, err)
	}
}

func TestChildHasNoCapability(t *testing.T) {
	t.Parallel()
	p, out := startChild(t, "status")
	<-p.Done()
	if p.Err() != nil {
		t.Fatalf("%v\n%s", p.Err(), out)
	}
	const none = "0000000000000000"
	for _, want := range []string{
		"CapInh:\t" + none, "CapPrm:\t" + none, "CapEff:\t" + none, "CapAmb:\t" + none,
		"NoNewPrivs:\t1",
	} {
		if !slices.Contains(strings.Split(out.String(), "\n"), want) {
			t.Errorf("the child lacks %q:\n%s", want, out)
		}
	}
	if os.Geteuid() == 0 && !strings.Contains(out.String(), "\nUid:\t65520\t65520\t65520\t65520\n") {
		t.Errorf("a child of root runs as root:\n%s", out)
	}
}

// TestParentKeepsItsCapabilities: Start does not change the capabilities of this process.
func TestParentKeepsItsCapabilities(t *testing.T) {
	t.Parallel()
	before, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	p, _ := startChild(t, "sleep")
	after, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	caps := func(text []byte) (lines []string) {
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "NoNewPrivs") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	if !slices.Equal(caps(before), caps(after)) {
		t.Errorf("before %q, after %q", caps(before), caps(after))
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	<-p.Done()
	if err := p.Kill(); err != nil {
		t.Errorf("a second kill: %v", err)
	}
}

func TestConfined(t *testing.T) {
	t.Parallel()
	p, out := startChild(t, "confined")
	<-p.Done()
	if p.Err() != nil {
		t.Errorf("%v\n%s", p.Err(), out)
	}
}

// TestForbidden: each call that a kind of child must not make fails inside that child.
func TestForbidden(t *testing.T) {
	t.Parallel()
	for action := range sandbox.ForbiddenActions() {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			p, out := startChild(t, action)
			<-p.Done()
			if p.Err() != nil {
				t.Errorf("%v\n%s", p.Err(), out)
			}
		})
	}
}

func TestChildExit(t *testing.T) {
	t.Parallel()
	p, _ := startChild(t, "fail")
	<-p.Done()
	var exit *exec.ExitError
	if !errors.As(p.Err(), &exit) || exit.ExitCode() != 3 {
		t.Errorf("the child ended with %v", p.Err())
	}
	if _, err := sandbox.Start(exec.Command("/nonexistent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such program: %v", err)
	}
}
