// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestNotifierProtocol(t *testing.T) {
	m := startFakeManager(t)
	var n Notifier
	for want, notify := range map[string]func() error{
		"READY=1\nSTATUS=Serving: x":      func() error { return n.Ready("Serving: x") },
		"STOPPING=1\nSTATUS=Stopping":     func() error { return n.Stopping("Stopping") },
		"STATUS=Standby: another has it.": func() error { return n.Status("Standby: another has it.") },
	} {
		if err := notify(); err != nil {
			t.Fatal(err)
		}
		if got, _ := m.receive(); got != want {
			t.Errorf("received %q, want %q", got, want)
		}
	}
	if err := n.Reloading(); err != nil {
		t.Fatal(err)
	}
	text, _ := m.receive()
	usec, found := strings.CutPrefix(text, "RELOADING=1\nMONOTONIC_USEC=")
	if v, err := strconv.ParseInt(usec, 10, 64); !found || err != nil || v <= 0 {
		t.Errorf("MONOTONIC_USEC=%q", usec)
	}
}

// TestStatusRead: it returns after the manager read the status.
func TestStatusRead(t *testing.T) {
	m := startFakeManager(t)
	done := make(chan error, 1)
	go func() { done <- Notifier{}.StatusRead("cannot pull") }()
	if text, fd := m.receive(); text != "STATUS=cannot pull" || fd != -1 {
		t.Errorf("received %q with descriptor %d", text, fd)
	}
	text, fd := m.receive()
	select {
	case err := <-done:
		t.Errorf("StatusRead did not wait for the manager: %v", err)
	default:
	}
	_ = unix.Close(fd)
	if err := <-done; err != nil || text != "BARRIER=1" {
		t.Errorf("received %q: %v", text, err)
	}
	t.Setenv("NOTIFY_SOCKET", "")
	if err := (Notifier{}).StatusRead("x"); err != nil {
		t.Errorf("without a manager: %v", err)
	}
}

// TestManagerThatDoesNotRead: a manager whose queue is full delays a message for a bounded
// time. The message of the reconcile loop does not wait at all.
func TestManagerThatDoesNotRead(t *testing.T) {
	startFakeManager(t)
	path := os.Getenv("NOTIFY_SOCKET")
	var err error
	for err == nil {
		err = sendMessage(path, "STATUS=x", -1, time.Minute, unix.MSG_DONTWAIT)
	}
	var n Notifier
	if reloading := n.Reloading(); !errors.Is(err, unix.EAGAIN) || !errors.Is(reloading, unix.EAGAIN) {
		t.Fatalf("a full queue: %v; Reloading: %v", err, reloading)
	}
	if err := n.Status("y"); !errors.Is(err, unix.EAGAIN) { // after notifyTimeout
		t.Errorf("Status: %v", err)
	}
}

// TestSignalInterruptsNoMessage: signals neither end nor extend the wait for the manager.
func TestSignalInterruptsNoMessage(t *testing.T) {
	startFakeManager(t)
	path := os.Getenv("NOTIFY_SOCKET")
	for err := error(nil); err == nil; {
		err = sendMessage(path, "STATUS=x", -1, time.Minute, unix.MSG_DONTWAIT)
	}
	thread, result := make(chan int), make(chan error)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		result <- sendMessage(path, "STATUS=y", -1, notifyTimeout, 0)
	}()
	blocked := <-thread
	for {
		select {
		case err := <-result:
			if !errors.Is(err, unix.EAGAIN) {
				t.Errorf("got %v, want EAGAIN", err)
			}
			return
		case <-time.After(20 * time.Millisecond): // between two signals
			if err := unix.Tgkill(os.Getpid(), blocked, unix.SIGURG); err != nil && !errors.Is(err, unix.ESRCH) {
				t.Fatal(err)
			}
		}
	}
}

// TestSilentBus: the context bounds a bus that accepts connections and does not answer.
func TestSilentBus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus")
	bus, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+path)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = bus.Accept()
		cancel()
	}()
	if stopping, err := HasStopJob(ctx); stopping || err == nil {
		t.Errorf("%v, %v", stopping, err)
	}
}

func TestNotifierWithoutManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := (Notifier{}).Ready("x"); err != nil {
		t.Errorf("without a manager: %v", err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	if err := (Notifier{}).Ready("x"); err == nil {
		t.Error("no error without a manager")
	}
}

func TestWatchdogReportsErrors(t *testing.T) {
	t.Parallel()
	var reported []string
	results := []string{"", "a", "a", "b", "", "b"}
	next := reportErrors(func() error {
		result := results[0]
		results = results[1:]
		if result == "" {
			return nil
		}
		return errors.New(result)
	}, func(err error) { reported = append(reported, err.Error()) })
	for len(results) > 0 {
		next()
	}
	if diff := cmp.Diff([]string{"a", "b", "b"}, reported); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestWatchdogWithoutManager: a heartbeat that cannot be sent is reported.
func TestWatchdogWithoutManager(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "1000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	reported := make(chan error, 1)
	w, err := NewWatchdog(func(err error) { reported <- err })
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = w.Run(t.Context()) }()
	beat, done := w.Source("a")
	defer done()
	beat()
	if err := <-reported; !errors.Is(err, unix.ENOENT) {
		t.Errorf("reported %v", err)
	}
}

func TestWatchdogDisabled(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "")
	w, err := NewWatchdog(func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	beat, done := w.Source("a")
	beat()
	done()
	cancel()
	_ = w.Run(ctx)
	t.Setenv("WATCHDOG_USEC", "soon")
	if _, err := NewWatchdog(func(err error) { t.Error(err) }); err == nil {
		t.Error("an invalid WATCHDOG_USEC is accepted")
	}
}

type journalRecord struct {
	Message  string
	Priority journal.Priority
	Fields   map[string]string
}

func TestJournalFields(t *testing.T) {
	t.Parallel()
	var got []journalRecord
	log := slog.New(&journalHandler{send: func(m string, p journal.Priority, f map[string]string) error {
		got = append(got, journalRecord{m, p, f})
		return nil
	}})
	log.Info("a challenge", slog.String("event", "challenge"), slog.Int("status", 200), slog.Float64("duration_ms", 3.5))
	log.With(slog.String("vip", "192.0.2.5")).Warn("slow", slog.Any("error", errors.New("late")))
	log.Error("it fails", slog.String("client_kind", "1"))
	log.Debug("not for the journal")
	want := []journalRecord{
		{"a challenge", journal.PriInfo, map[string]string{"EVENT": "challenge", "STATUS": "200", "DURATION_MS": "3.5"}},
		{"slow: late", journal.PriWarning, map[string]string{"VIP": "192.0.2.5", "ERROR": "late"}},
		{"it fails", journal.PriErr, map[string]string{"CLIENT_KIND": "1"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHangingJournalDoesNotBlock(t *testing.T) {
	t.Parallel()
	var got []string
	hang, passed := make(chan struct{}), make(chan string, 10*queueLength)
	q := newJournalQueue(func(m string, _ journal.Priority, _ map[string]string) error {
		<-hang
		passed <- m
		return nil
	})
	for n := range 3 * queueLength {
		if err := q.enqueue(strconv.Itoa(n), journal.PriInfo, nil); err != nil {
			t.Fatal(err)
		}
	}
	close(hang)
	q.flush()
	close(passed)
	for m := range passed {
		got = append(got, m)
	}
	dropped, reported := 0, false
	for _, m := range got {
		if n, found := strings.CutSuffix(m, " log entries were dropped: the journal was too slow"); found {
			reported = true
			v, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			dropped += v
		}
	}
	if !reported || len(got)-1+dropped != 3*queueLength {
		t.Errorf("%d sent, %d reported as dropped, of %d", len(got)-1, dropped, 3*queueLength)
	}
	if got[0] != "0" {
		t.Errorf("the first entry is %q", got[0])
	}
}

func TestFlushIsBounded(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	defer close(hang)
	q := newJournalQueue(func(string, journal.Priority, map[string]string) error {
		<-hang
		return nil
	})
	_ = q.enqueue("x", journal.PriInfo, nil)
	q.flush()
}
