// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
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
	return notifierTest{newNotifier(slog.New(slog.DiscardHandler), newTestTracker(), nil), t, socket, path}
}

// setResult sets the result of a reconciliation.
func (n notifierTest) setResult(number int) {
	n.tracker.SetReconcileResult(tracker.ReconcileResult{Reason: report.NoVIPs, Message: fmt.Sprintf("result %d", number)}, time.Now())
}

// receive returns the next message of the notifier.
func (n notifierTest) receive() string {
	n.t.Helper()
	must(n.t, n.socket.SetReadDeadline(time.Now().Add(time.Minute)))
	buffer := make([]byte, 4096)
	length, err := n.socket.Read(buffer)
	must(n.t, err)
	return string(buffer[:length])
}

// expectMessages checks the messages so far.
func (n notifierTest) expectMessages(want ...string) {
	n.t.Helper()
	const mark = "nothing more"
	if _, err := n.socket.WriteTo([]byte(mark), &net.UnixAddr{Name: n.path, Net: "unixgram"}); err != nil {
		n.t.Fatal(err)
	}
	var all []string
	for message := n.receive(); message != mark; message = n.receive() {
		all = append(all, strings.ReplaceAll(message, "\n", " "))
	}
	if diff := cmp.Diff(want, all); diff != "" {
		n.t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// A line is sent when systemd has another one.
func TestStatusLineIsSentWhenChanged(t *testing.T) {
	n := newNotifierTest(t)
	n.setResult(1)
	n.sendIfChanged()
	n.sendIfChanged()
	n.setResult(2)
	must(t, n.send(n.notify.Ready))
	n.sendIfChanged()
	n.setResult(1)
	n.sendIfChanged()
	n.expectMessages("STATUS=NoVIPs: result 1", "READY=1 STATUS=NoVIPs: result 2", "STATUS=NoVIPs: result 1")
}

// A line that could not be sent is sent the next time.
func TestUnsentStatusLineIsSentLater(t *testing.T) {
	n := newNotifierTest(t)
	n.setResult(1)
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	n.sendIfChanged()
	t.Setenv("NOTIFY_SOCKET", n.path)
	n.sendIfChanged()
	n.expectMessages("STATUS=NoVIPs: result 1")
}

// A result that arrives late does not replace the status line of the stop.
func TestNoStatusLineAfterStopping(t *testing.T) {
	n := newNotifierTest(t)
	n.sendStopping()
	n.setResult(1)
	must(t, n.send(n.notify.Ready))
	n.sendIfChanged()
	n.expectMessages("STOPPING=1 STATUS=Stopping: completing requests in flight")
}

// TestReadyWaitsForSettings: a start or reload is complete when the proxy answers by its
// settings. If another reload has begun by then, its end completes both.
func TestReadyWaitsForSettings(t *testing.T) {
	n := newNotifierTest(t)
	var waits []chan struct{}
	n.inForce = func() func(context.Context) {
		waits = append(waits, make(chan struct{}))
		inForce := waits[len(waits)-1]
		return func(context.Context) { <-inForce }
	}
	go func() { _ = n.runReady(t.Context()) }()
	n.setResult(0)
	n.Ready()
	must(t, n.notify.Status("the settings are not in force"))
	close(waits[0])
	expect := func(prefix string) {
		t.Helper()
		if got := n.receive(); !strings.HasPrefix(got, prefix) {
			t.Errorf("got %q, want %q", got, prefix)
		}
	}
	expect("STATUS=the settings")
	expect("READY=1")
	n.Reloading()
	n.Ready()
	n.Reloading()
	close(waits[1])
	expect("RELOADING=1")
	expect("RELOADING=1")
	n.Ready()
	must(t, n.notify.Status("the settings are not in force"))
	close(waits[2])
	expect("STATUS=the settings")
	expect("READY=1")
}

// TestReadyIsRepeated: a manager that does not get the end of a start gets it later.
func TestReadyIsRepeated(t *testing.T) {
	n := newNotifierTest(t)
	n.inForce = func() func(context.Context) { return func(context.Context) {} }
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	var log nstest.Log
	n.log = slog.New(slog.NewTextHandler(&log, nil))
	go func() { _ = n.runReady(t.Context()) }()
	n.setResult(0)
	n.Ready()
	nstest.Await(t, "a failed message", func() bool { return log.Count("cannot notify systemd") > 0 })
	t.Setenv("NOTIFY_SOCKET", n.path)
	if got := n.receive(); !strings.HasPrefix(got, "READY=1") {
		t.Errorf("got %q, want READY=1", got)
	}
}

// An older line never follows the one that is sent with readiness, whatever the order of
// the goroutines.
func TestStatusLinesAreSentInOrder(t *testing.T) {
	n := newNotifierTest(t)
	var both sync.WaitGroup
	defer both.Wait()
	defer n.socket.Close() // or the writer would wait for its reader
	const results = 5000
	n.setResult(0)
	over := make(chan struct{})
	both.Go(func() {
		defer close(over)
		for number := 1; number <= results; number++ {
			n.setResult(number)
			must(t, n.send(n.notify.Ready))
		}
	})
	both.Go(func() {
		for ; ; n.sendIfChanged() {
			select {
			case <-over:
				return
			default:
			}
		}
	})

	for last := 0; last < results; {
		_, line, _ := strings.Cut(n.receive(), "STATUS=")
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
