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

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// announced is an announcer whose manager is a socket.
type announced struct {
	*announcer
	t      *testing.T
	socket *net.UnixConn
	path   string
}

func newAnnounced(t *testing.T) announced {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	board := report.NewBoard("test", time.Now(), func(report.Condition, report.Condition) {})
	return announced{&announcer{log: slog.New(slog.DiscardHandler), board: board}, t, socket, path}
}

// look puts the result of a look on the board.
func (a announced) look(n int) {
	a.board.SetLook(report.Look{Reason: report.NoVIPs, Message: fmt.Sprintf("look %d", n)}, time.Now())
}

// next is the next message of the announcer.
func (a announced) next() string {
	a.t.Helper()
	must(a.t, a.socket.SetReadDeadline(time.Now().Add(time.Minute)))
	buffer := make([]byte, 4096)
	n, err := a.socket.Read(buffer)
	must(a.t, err)
	return string(buffer[:n])
}

// says checks the messages so far.
func (a announced) says(want ...string) {
	a.t.Helper()
	const mark = "nothing more"
	if _, err := a.socket.WriteTo([]byte(mark), &net.UnixAddr{Name: a.path, Net: "unixgram"}); err != nil {
		a.t.Fatal(err)
	}
	var all []string
	for message := a.next(); message != mark; message = a.next() {
		all = append(all, strings.ReplaceAll(message, "\n", " "))
	}
	if diff := cmp.Diff(want, all); diff != "" {
		a.t.Errorf("said (-want +got):\n%s", diff)
	}
}

// A line is sent when systemd has another one, whoever has sent that.
func TestLineThatComesBack(t *testing.T) {
	a := newAnnounced(t)
	a.look(1)
	a.refresh()
	a.refresh()
	a.look(2)
	a.Ready()
	a.refresh()
	a.look(1)
	a.refresh()
	a.says("STATUS=NoVIPs: look 1", "READY=1 STATUS=NoVIPs: look 2", "STATUS=NoVIPs: look 1")
}

// A line that systemd was not told is told the next time.
func TestLineThatWasNotTold(t *testing.T) {
	a := newAnnounced(t)
	a.look(1)
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	a.refresh()
	t.Setenv("NOTIFY_SOCKET", a.path)
	a.refresh()
	a.says("STATUS=NoVIPs: look 1")
}

// What the service waits for at its end is not covered by a look that was under way.
func TestNoLineFollowsTheEnd(t *testing.T) {
	a := newAnnounced(t)
	a.stopping()
	a.look(1)
	a.Ready()
	a.refresh()
	a.says("STOPPING=1 STATUS=Stopping: waiting for challenges in flight")
}

// The line that readiness comes with stands: what the line was before cannot
// follow it, however the two ways to say it are scheduled.
func TestNoOlderLineFollows(t *testing.T) {
	a := newAnnounced(t)
	var both sync.WaitGroup
	defer both.Wait()
	defer a.socket.Close() // else who writes would wait for its reader
	const looks = 5000
	a.look(0)
	over := make(chan struct{})
	both.Go(func() {
		defer close(over)
		for n := 1; n <= looks; n++ {
			a.look(n)
			a.Ready()
		}
	})
	both.Go(func() {
		for ; ; a.refresh() {
			select {
			case <-over:
				return
			default:
			}
		}
	})

	for last := 0; last < looks; {
		_, line, _ := strings.Cut(a.next(), "STATUS=")
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
