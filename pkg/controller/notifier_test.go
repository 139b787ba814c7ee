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

// notifierTest is a notifier whose service manager is a socket.
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
	return notifierTest{&notifier{log: slog.New(slog.DiscardHandler), tracker: newTestTracker()}, t, socket, path}
}

// setResult sets the result of a reconciliation.
func (a notifierTest) setResult(n int) {
	a.tracker.SetReconcileResult(tracker.ReconcileResult{Reason: report.NoVIPs, Message: fmt.Sprintf("result %d", n)}, time.Now())
}

// receive returns the next message of the notifier.
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
		a.t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// A line is sent when systemd has another one.
func TestStatusLineIsSentWhenChanged(t *testing.T) {
	a := newNotifierTest(t)
	a.setResult(1)
	a.sendIfChanged()
	a.sendIfChanged()
	a.setResult(2)
	a.Ready()
	a.sendIfChanged()
	a.setResult(1)
	a.sendIfChanged()
	a.expectMessages("STATUS=NoVIPs: result 1", "READY=1 STATUS=NoVIPs: result 2", "STATUS=NoVIPs: result 1")
}

// A line that could not be sent is sent the next time.
func TestUnsentStatusLineIsSentLater(t *testing.T) {
	a := newNotifierTest(t)
	a.setResult(1)
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	a.sendIfChanged()
	t.Setenv("NOTIFY_SOCKET", a.path)
	a.sendIfChanged()
	a.expectMessages("STATUS=NoVIPs: result 1")
}

// A result that arrives late does not replace the status line of the stop.
func TestNoStatusLineAfterStopping(t *testing.T) {
	a := newNotifierTest(t)
	a.sendStopping()
	a.setResult(1)
	a.Ready()
	a.sendIfChanged()
	a.expectMessages("STOPPING=1 STATUS=Stopping: completing requests in flight")
}

// An older line never follows the one that is sent with readiness, whatever the order of
// the goroutines.
func TestStatusLinesAreSentInOrder(t *testing.T) {
	a := newNotifierTest(t)
	var both sync.WaitGroup
	defer both.Wait()
	defer a.socket.Close() // or the writer would wait for its reader
	const results = 5000
	a.setResult(0)
	over := make(chan struct{})
	both.Go(func() {
		defer close(over)
		for n := 1; n <= results; n++ {
			a.setResult(n)
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

	for last := 0; last < results; {
		_, line, _ := strings.Cut(a.receive(), "STATUS=")
		var number int
		if _, err := fmt.Sscanf(line, "NoVIPs: result %d", &number); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if number < last {
			t.Fatalf("result %d is sent after result %d", number, last)
		}
		last = number
	}
}
