// SPDX-License-Identifier: Apache-2.0

package notifier

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// notifierTest is a notifier whose service manager is a socket.
type notifierTest struct {
	*Notifier

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
	status := tracker.New("test", time.Now(), func(_, _ report.Condition) {})
	return notifierTest{New(slog.New(slog.DiscardHandler), status, nil), t, socket, path}
}

// setResult sets the result of a reconciliation.
func (n notifierTest) setResult(number int) {
	n.tracker.SetReconcileResult(tracker.ReconcileResult{Reason: report.NoVIPs, Message: fmt.Sprintf("result %d", number)},
		time.Now())
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
	n.send(false)
	n.send(false)
	n.setResult(2)
	n.send(true)
	n.send(false)
	n.setResult(1)
	n.send(false)
	n.expectMessages("STATUS=NoVIPs: result 1", "READY=1 STATUS=NoVIPs: result 2", "STATUS=NoVIPs: result 1")
}

// A line that could not be sent is sent the next time.
func TestUnsentStatusLineIsSentLater(t *testing.T) {
	n := newNotifierTest(t)
	n.setResult(1)
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	n.send(false)
	t.Setenv("NOTIFY_SOCKET", n.path)
	n.send(false)
	n.expectMessages("STATUS=NoVIPs: result 1")
}

// TestReadyWaitsForSettings: a start or reload is complete when the proxy answers by its
// settings. If another reload began by then, its end completes both.
func TestReadyWaitsForSettings(t *testing.T) {
	n := newNotifierTest(t)
	var waits []chan struct{}
	n.applied = func() func(context.Context) {
		waits = append(waits, make(chan struct{}))
		applied := waits[len(waits)-1]
		return func(context.Context) { <-applied }
	}
	go func() { _ = n.RunReady(t.Context()) }()
	go func() { _ = n.Run(t.Context()) }()
	n.setResult(0)
	n.Ready()
	must(t, n.notify.Status("the settings are not applied"))
	close(waits[0])
	expect := func(prefix string) {
		t.Helper()
		got := n.receive()
		for strings.HasPrefix(got, "STATUS=NoVIPs") { // the result
			got = n.receive()
		}
		if !strings.HasPrefix(got, prefix) {
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
	must(t, n.notify.Status("the settings are not applied"))
	close(waits[2])
	expect("STATUS=the settings")
	expect("READY=1")
}

// TestMessageIsRepeated: a manager that does not get the end of a start, or a line, gets it later,
// also if nothing changes any more.
func TestMessageIsRepeated(t *testing.T) {
	for _, want := range []string{"READY=1", "STATUS=NoVIPs: result 0"} {
		t.Run(want, func(t *testing.T) {
			n := newNotifierTest(t)
			n.applied = func() func(context.Context) { return func(context.Context) {} }
			t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
			var log nstest.Log
			n.log = slog.New(slog.NewTextHandler(&log, nil))
			n.setResult(0)
			go func() { _ = n.RunReady(t.Context()) }()
			go func() { _ = n.Run(t.Context()) }()
			if want == "READY=1" {
				n.Ready()
			}
			nstest.Await(t, "a failed message", func() bool { return log.Count("cannot notify systemd") > 0 })
			t.Setenv("NOTIFY_SOCKET", n.path)
			for !strings.HasPrefix(n.receive(), want) { // receive fails after a minute
			}
			if log.Count("cannot notify systemd") != 1 {
				t.Error("more than the first of the errors is logged")
			}
		})
	}
}

// must ends the test after an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
