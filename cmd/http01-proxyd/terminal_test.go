// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/statussocket"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// asProgram makes the test binary run as the program.
const asProgram = "HTTP01_PROXYD_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// patience limits every wait. It is far longer than any step takes.
const patience = 30 * time.Second

// pty is a pseudo-terminal.
type pty struct {
	t              *testing.T
	master, device *os.File
}

func newPTY(t *testing.T) *pty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	control, err := master.SyscallConn() // and not Fd, which would make reads block for good
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	if err := control.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); err != nil {
		t.Fatal(err)
	}
	device, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pty{t, master, device}
	p.resize(100, 24)
	return p
}

// resize sets the size. The kernel signals the change to the foreground process.
func (p *pty) resize(columns, rows uint16) {
	p.t.Helper()
	control, err := p.master.SyscallConn()
	if err != nil {
		p.t.Fatal(err)
	}
	var failed error
	if err := control.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
	}); err != nil || failed != nil {
		p.t.Fatal(err, failed)
	}
}

// output collects the output of a process.
type output struct {
	mu   sync.Mutex
	text []byte
	more chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	o.text = append(o.text, b...)
	o.mu.Unlock()
	select {
	case o.more <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// process is a running http01-proxyd.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   *output
	ended chan struct{}
}

// launch starts `status` with the arguments, on the terminal or, if that is nil, with a
// pipe. The variables are added to the environment of the test.
func launch(t *testing.T, p *pty, env []string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	self := &process{
		t, exec.CommandContext(ctx, os.Args[0], append([]string{"status"}, args...)...),
		&output{more: make(chan struct{}, 1)}, make(chan struct{}),
	}
	self.cmd.Env = append(os.Environ(), append([]string{
		asProgram + "=1", "TERM=xterm", "NO_COLOR=",
		"GORACE=atexit_sleep_ms=0",
	}, env...)...)
	self.cmd.Stdout, self.cmd.Stderr = self.out, self.out
	if p != nil {
		self.cmd.Stdin, self.cmd.Stdout, self.cmd.Stderr = p.device, p.device, p.device
		self.cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	}
	if err := self.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if p != nil {
		_ = p.device.Close() // so that reading ends with the program
	}
	go func() {
		defer close(self.ended)
		if p != nil {
			_, _ = io.Copy(self.out, p.master) // ends with EIO
		}
		_ = self.cmd.Wait()
	}()
	return self
}

// await waits until the output after the first from bytes contains the text, and
// returns the length of the output.
func (p *process) await(from int, text string) int {
	p.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		out := p.out.String()
		if strings.Contains(out[from:], text) {
			return len(out)
		}
		select {
		case <-p.out.more:
		case <-p.ended:
			if out := p.out.String(); !strings.Contains(out[from:], text) {
				p.t.Fatalf("it has ended and has not printed %q:\n%q", text, out[from:])
			}
		case <-limit.C:
			p.t.Fatalf("not printed: %q; printed:\n%q", text, out[from:])
		}
	}
}

// exit waits for the end of the process and returns the exit code and the whole output.
func (p *process) exit() (int, string) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("it does not end; printed:\n%q", p.out)
	}
	return p.cmd.ProcessState.ExitCode(), p.out.String()
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// service answers on a status socket.
type service struct {
	t    *testing.T
	path string
}

func newService(t *testing.T) service {
	t.Helper()
	return service{t, filepath.Join(t.TempDir(), "status.sock")}
}

// start answers until stop is called.
func (s service) start(current func() report.Report) (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	ln, err := statussocket.Listen(ctx, s.path)
	if err != nil {
		cancel()
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- statussocket.Serve(ctx, ln, current, func(err error) { panic(err) }) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	}
}
