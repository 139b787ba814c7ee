// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
)

// command and event are the unions of a test protocol.
type command struct {
	Text   *text   `json:"text,omitempty"`
	Listen *listen `json:"listen,omitempty"`
}

type event struct {
	ID      int      `json:"id,omitempty"`
	Text    *text    `json:"text,omitempty"`
	Numbers *numbers `json:"numbers,omitempty"`
}

type (
	text    struct{ Text string }
	numbers struct{ Numbers []uint8 }
	listen  struct{}
)

var errTestEvent = errors.New("negative ID")

func (e *event) Validate() error {
	if e.ID < 0 {
		return errTestEvent
	}
	return nil
}

func say(s string) command { return command{Text: &text{s}} }

func newTestPair(t *testing.T) (*Parent, *Child) {
	t.Helper()
	parent, files, err := NewPair()
	if err != nil {
		t.Fatal(err)
	}
	child, err := NewChild(files)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = parent.Close(), child.Close() })
	return parent, child
}

// TestCommands: a command of any size arrives whole, and its descriptor with it.
func TestCommands(t *testing.T) {
	t.Parallel()
	parent, child := newTestPair(t)
	parent.writeTimeout = time.Minute // the race detector takes seconds to decode megabytes
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	commands := []command{say("a"), say(strings.Repeat("a", maxCommand-100)), {Listen: &listen{}}, say("")}
	sent := make(chan error, 1)
	go func() {
		for _, c := range commands {
			fd := -1
			if c.Listen != nil {
				fd = int(file.Fd())
			}
			if err := parent.Send(c, fd); err != nil {
				_ = parent.Close()
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for _, want := range commands {
		var got command
		fd, err := child.Receive(&got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%.1000s", diff)
		}
		if (fd >= 0) != (want.Listen != nil) {
			t.Errorf("descriptor %d", fd)
		}
		if fd < 0 {
			continue
		}
		if listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); listening != 1 || err != nil {
			t.Errorf("the descriptor listens: %d, %v", listening, err)
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 || err != nil {
			t.Errorf("the descriptor is inherited: %d, %v", flags, err)
		}
		_ = unix.Close(fd)
	}
	if err := errors.Join(<-sent, parent.Close()); err != nil {
		t.Error(err)
	}
	var c command
	if _, err := child.Receive(&c); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}

// TestPayloads: neither end sends a message without exactly one payload.
func TestPayloads(t *testing.T) {
	t.Parallel()
	parent, child := newTestPair(t)
	for name, err := range map[string]error{
		"no payload":         parent.Send(command{}, -1),
		"two payloads":       parent.Send(command{Text: &text{}, Listen: &listen{}}, -1),
		"an event with none": child.Send(event{ID: 1}),
	} {
		if !errors.Is(err, ErrPayloads) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInvalidEvents: an event that no child of this program sends is an error, which
// quotes nothing of the event.
func TestInvalidEvents(t *testing.T) {
	t.Parallel()
	framed := func(text string) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	}
	for name, bytes := range map[string][]byte{
		"too long":            binary.BigEndian.AppendUint32(nil, maxEvent+1),
		"cut in the length":   {0, 0},
		"cut in the text":     framed(`{"text":{}}`)[:8],
		"no JSON":             framed("quoted"),
		"another kind":        framed(`{"quoted":{}}`),
		"a kind and no value": framed(`{"text":null}`),
		"no kind":             framed(`{"id":1}`),
		"two kinds":           framed(`{"text":{},"numbers":{}}`),
		"two messages":        framed(`{"text":{}}{"text":{}}`),
		"out of range":        framed(`{"numbers":{"Numbers":[256]}}`),
		"rejected values":     framed(`{"id":-1,"text":{}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent, child := newTestPair(t)
			if _, err := child.pipe.Write(bytes); err != nil {
				t.Fatal(err)
			}
			_ = child.Close()
			var e event
			if err := parent.Receive(&e); err == nil || strings.Contains(err.Error(), "quoted") {
				t.Errorf("received as %+v, %v", e, err)
			}
		})
	}
}

// TestNoDescriptorReachesTheController: the parent can receive a descriptor neither over
// the pipe nor over the socket.
func TestNoDescriptorReachesTheController(t *testing.T) {
	parent, child := newTestPair(t)
	if _, _, err := child.socket.WriteMsgUnix([]byte{0}, unix.UnixRights(1), nil); !errors.Is(err, unix.EPIPE) {
		t.Errorf("over the socket: %v, want EPIPE", err)
	}
	raw, err := child.pipe.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var sent error
	_ = raw.Control(func(fd uintptr) { sent = unix.Sendmsg(int(fd), []byte{0}, unix.UnixRights(1), nil, 0) })
	if !errors.Is(sent, unix.ENOTSOCK) {
		t.Errorf("over the pipe: %v, want ENOTSOCK", sent)
	}
	if err := child.Send(event{Text: &text{}}); err != nil {
		t.Fatal(err)
	}
	var e event
	if err := parent.Receive(&e); err != nil || e.Text == nil {
		t.Errorf("after that: %+v, %v", e, err)
	}
}

// TestChildThatDoesNotRead: a child that does not read blocks nobody. The parent queues
// the command, and Receive reports the failure.
func TestChildThatDoesNotRead(t *testing.T) {
	t.Parallel()
	parent, _ := newTestPair(t)
	if parent.writeTimeout != writeTimeout {
		t.Errorf("timeout %v", parent.writeTimeout)
	}
	parent.writeTimeout = time.Millisecond
	large := say(strings.Repeat("a", 1<<20)) // more than the socket's buffer holds
	if err := parent.Send(large, 1); err != nil {
		t.Errorf("queue a command: %v", err)
	}
	var e event
	if err := parent.Receive(&e); !errors.Is(err, errNotReading) {
		t.Errorf("receive: %v", err)
	}
	if err := parent.Send(large, 1); !errors.Is(err, errNotReading) {
		t.Errorf("the next command: %v", err)
	}
}

// TestParentThatDoesNotRead: events wait in their order, whole, until the parent reads.
// The end of the parent, or of the connection, ends the wait.
func TestParentThatDoesNotRead(t *testing.T) {
	const senders, events = 3, 40
	large := strings.Repeat("a", 5000) // more than a page: the pipe takes a part of it
	begin := func(t *testing.T) (*Parent, *Child, chan error) {
		t.Helper()
		parent, child := newTestPair(t)
		ended := make(chan error, senders)
		for sender := range senders {
			go func() {
				for i := range events {
					if err := child.Send(event{ID: 1 + sender*events + i, Text: &text{large}}); err != nil {
						ended <- err
						return
					}
				}
				ended <- nil
			}()
		}
		nstest.Await(t, "a full pipe", func() bool { return pipeIsFull(t, child) })
		return parent, child, ended
	}
	t.Run("reads later", func(t *testing.T) {
		parent, _, ended := begin(t)
		var next [senders]int
		for range senders * events {
			var e event
			if err := parent.Receive(&e); err != nil {
				t.Fatal(err)
			}
			sender, i := (e.ID-1)/events, (e.ID-1)%events
			if i != next[sender] || e.Text.Text != large {
				t.Fatalf("event %d of sender %d, want %d, with %d bytes", i, sender, next[sender], len(e.Text.Text))
			}
			next[sender]++
		}
		for range senders {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	for name, end := range map[string]struct {
		close func(*Parent, *Child) error
		want  error
	}{
		"ends":                            {func(p *Parent, _ *Child) error { return p.Close() }, unix.EPIPE},
		"the child closes the connection": {func(_ *Parent, c *Child) error { return c.Close() }, os.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			parent, child, ended := begin(t)
			_ = end.close(parent, child)
			for range senders {
				if err := <-ended; !errors.Is(err, end.want) {
					t.Errorf("got %v, want %v", err, end.want)
				}
			}
		})
	}
}

// pipeIsFull reports whether a write to the pipe of events would wait.
func pipeIsFull(t *testing.T, child *Child) (full bool) {
	t.Helper()
	raw, err := child.pipe.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
		full = n == 0 && err == nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return full
}

const (
	// stoppedParent makes this test binary the parent of TestParentStandsStill.
	stoppedParent = "HTTP01_PROXYD_TEST_STOPPED_PARENT"
	// stoppedTimeout is its timeout. Reading a megabyte takes milliseconds.
	stoppedTimeout = 3 * time.Second
)

func TestMain(m *testing.M) {
	if os.Getenv(stoppedParent) != "" {
		os.Exit(runStoppedParent())
	}
	os.Exit(m.Run())
}

// runStoppedParent sends a command that is larger than the socket's buffer on the inherited
// socket, and reports how that ended with its exit code.
func runStoppedParent() int {
	socket, err := sendOnly(3)
	if err != nil {
		return 2
	}
	framed, err := encode(say(strings.Repeat("a", 1<<20)), maxCommand)
	if err != nil {
		return 3
	}
	if (&Parent{socket: socket, writeTimeout: stoppedTimeout}).write(queuedCommand{framed, -1}) != nil {
		return 1
	}
	return 0
}

// TestParentStandsStill: the timeout of a command elapses while the parent is stopped. The
// child, which reads when the parent continues, gets the whole command.
func TestParentStandsStill(t *testing.T) {
	t.Parallel()
	unused, files, err := NewPair() // for the pipe
	if err != nil {
		t.Fatal(err)
	}
	defer unused.Close()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = files[0].Close()
	child, err := NewChild([2]*os.File{os.NewFile(uintptr(fds[1]), "commands"), files[1]})
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	near := os.NewFile(uintptr(fds[0]), "commands")
	parent := exec.CommandContext(t.Context(), "/proc/self/exe")
	parent.Env = append(os.Environ(), stoppedParent+"=1")
	parent.ExtraFiles = []*os.File{near}
	if err := errors.Join(parent.Start(), near.Close()); err != nil {
		t.Fatal(err)
	}
	nstest.Await(t, "the parent waits for the child", func() bool { return socketIsFull(t, child) })
	if err := parent.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	<-time.After(stoppedTimeout + 2*stallThreshold) // the fault
	if err := parent.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var c command
	if _, err := child.Receive(&c); err != nil || len(c.Text.Text) != 1<<20 {
		t.Errorf("received %v", err)
	}
	if err := parent.Wait(); err != nil {
		t.Errorf("the parent: %v", err)
	}
}

// socketIsFull reports whether a quarter of the socket's buffer waits for the child. The
// kernel counts the overhead of each packet too.
func socketIsFull(t *testing.T, child *Child) bool {
	t.Helper()
	raw, err := child.socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	waiting, size := 0, 0
	err = raw.Control(func(fd uintptr) {
		waiting, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		size, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
	})
	if err != nil {
		t.Fatal(err)
	}
	return waiting > size/4
}

// TestOverflow: the queue is bounded in commands and in bytes. Its descriptors are
// closed with it.
func TestOverflow(t *testing.T) {
	for name, c := range map[string]command{
		"commands": {Listen: &listen{}},
		"bytes":    say(strings.Repeat("a", maxCommand-1000)),
	} {
		t.Run(name, func(t *testing.T) {
			parent, _ := newTestPair(t)
			before := openDescriptors(t)
			if err := parent.Send(say(strings.Repeat("a", 1<<20)), 1); err != nil {
				t.Fatal(err)
			}
			queued := 0
			var err error
			for ; err == nil && queued <= maxQueued+1; queued++ {
				err = parent.Send(c, 1)
			}
			if !errors.Is(err, errNotReading) {
				t.Errorf("after %d commands: %v", queued, err)
			}
			var e event
			if err := parent.Receive(&e); !errors.Is(err, errNotReading) {
				t.Errorf("receive: %v", err)
			}
			_ = parent.Close()
			nstest.Await(t, "the descriptors are closed", func() bool { return openDescriptors(t) <= before })
		})
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// TestManyValues: the values of an event are bounded before memory is allocated for
// them. A text of 192 KiB can have 65,000 empty structs, which take 20 MiB.
func TestManyValues(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"members": `{"numbers":{"Numbers":[` + strings.Repeat("1,", maxValues) + `1]}}`,
		"objects": `{"text":[` + strings.Repeat("{},", maxValues) + `{}]}`,
		"depth":   strings.Repeat("[", maxValues+1),
	} {
		var e event
		if err := DecodeEvent([]byte(text), &e); err == nil || !strings.Contains(err.Error(), "values") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBudget: a flood of messages ends the connection.
func TestBudget(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, length := range map[string]int{"messages": 20, "bytes": maxEvent} {
		var b budget
		count := 0
		for b.spend(length, now) == nil {
			count++
		}
		if want := min(maxPerSecond, maxBytesPerSecond/length); count != want {
			t.Errorf("%s: %d in a second, want %d", name, count, want)
		}
		if err := b.spend(length, now.Add(time.Second)); err != nil {
			t.Errorf("%s: in the next second: %v", name, err)
		}
	}
}

// TestTooLarge: a message that is too large is not sent, and the connection remains
// usable.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	parent, child := newTestPair(t)
	if err := parent.Send(say(strings.Repeat("a", maxCommand)), -1); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	if err := parent.Send(say("b"), -1); err != nil {
		t.Fatal(err)
	}
	var got command
	if _, err := child.Receive(&got); err != nil || got.Text == nil || got.Text.Text != "b" {
		t.Fatalf("got %+v, %v", got, err)
	}
}
