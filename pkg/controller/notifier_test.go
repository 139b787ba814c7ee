// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// notifierTest is an announcer whose manager is a socket.
type notifierTest struct {
	*notifier
	t      *testing.T
	socket *net.UnixConn
	path   string
}

func newNotifierTest(t *testing.T) notifierTest {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	board := tracker.New("test", time.Now(), func(report.Condition, report.Condition) {})
	return notifierTest{&notifier{log: slog.New(slog.DiscardHandler), tracker: board}, t, socket, path}
}

// setObservation puts the result of a look on the board.
func (a notifierTest) setObservation(n int) {
	a.tracker.SetReconcileResult(tracker.ReconcileResult{Reason: report.NoVIPs, Message: fmt.Sprintf("look %d", n)}, time.Now())
}

// receive is the next message of the announcer.
func (a notifierTest) receive() string {
	a.t.Helper()
	must(a.t, a.socket.SetReadDeadline(time.Now().Add(time.Minute)))
	buffer := make([]byte, 4096)
	n, err := a.socket.Read(buffer)
	must(a.t, err)
	return string(buffer[:n])
}

// expectMessages checks the messages so far.
func (a notifierTest) expectMessages(want ...string) {
	a.t.Helper()
	const mark = "nothing more"
	if _, err := a.socket.WriteTo([]byte(mark), &net.UnixAddr{Name: a.path, Net: "unixgram"}); err != nil {
		a.t.Fatal(err)
	}
	var all []string
	for message := a.receive(); message != mark; message = a.receive() {
		all = append(all, strings.ReplaceAll(message, "\n", " "))
	}
	if diff := cmp.Diff(want, all); diff != "" {
		a.t.Errorf("said (-want +got):\n%s", diff)
	}
}

// A line is sent when systemd has another one, whoever has sent that.
func TestStatusLineIsSentWhenChanged(t *testing.T) {
	a := newNotifierTest(t)
	a.setObservation(1)
	a.sendIfChanged()
	a.sendIfChanged()
	a.setObservation(2)
	a.Ready()
	a.sendIfChanged()
	a.setObservation(1)
	a.sendIfChanged()
	a.expectMessages("STATUS=NoVIPs: look 1", "READY=1 STATUS=NoVIPs: look 2", "STATUS=NoVIPs: look 1")
}

// A line that systemd was not told is told the next time.
func TestUnsentStatusLineIsSentLater(t *testing.T) {
	a := newNotifierTest(t)
	a.setObservation(1)
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	a.sendIfChanged()
	t.Setenv("NOTIFY_SOCKET", a.path)
	a.sendIfChanged()
	a.expectMessages("STATUS=NoVIPs: look 1")
}

// What the service waits for at its end is not covered by a look that was under way.
func TestNoStatusLineAfterStopping(t *testing.T) {
	a := newNotifierTest(t)
	a.sendStopping()
	a.setObservation(1)
	a.Ready()
	a.sendIfChanged()
	a.expectMessages("STOPPING=1 STATUS=Stopping: waiting for challenges in flight")
}

// The line that readiness comes with stands: what the line was before cannot
// follow it, however the two ways to say it are scheduled.
func TestStatusLinesAreSentInOrder(t *testing.T) {
	a := newNotifierTest(t)
	var both sync.WaitGroup
	defer both.Wait()
	defer a.socket.Close() // else who writes would wait for its reader
	const looks = 5000
	a.setObservation(0)
	over := make(chan struct{})
	both.Go(func() {
		defer close(over)
		for n := 1; n <= looks; n++ {
			a.setObservation(n)
			a.Ready()
		}
	})
	both.Go(func() {
		for ; ; a.sendIfChanged() {
			select {
			case <-over:
				return
			default:
			}
		}
	})

	for last := 0; last < looks; {
		_, line, _ := strings.Cut(a.receive(), "STATUS=")
		var number int
		if _, err := fmt.Sscanf(line, "NoVIPs: look %d", &number); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if number < last {
			t.Fatalf("look %d is told after look %d", number, last)
		}
		last = number
	}
}
