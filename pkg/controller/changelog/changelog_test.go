// SPDX-License-Identifier: Apache-2.0

package changelog

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
)

// start runs a log. lines returns what it wrote since the last call.
func start(t *testing.T) (l *Log, lines func() []string, stop func()) {
	t.Helper()
	var out nstest.Log
	l = New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}})))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	read := 0
	lines = func() []string {
		synctest.Wait()
		text := out.String()
		defer func() { read = len(text) }()
		return strings.Split(strings.TrimSuffix(text[read:], "\n"), "\n")
	}
	return l, lines, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		l.Flush()
	}
}

func change(subject string, n int) Entry {
	return Entry{
		Subject: subject, Message: fmt.Sprintf("%s is %d", subject, n),
		Attrs: []slog.Attr{slog.String("event", "e")},
	}
}

// TestRareChanges: each change has its own entry, immediately, and in order.
func TestRareChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines, stop := start(t)
		defer stop()
		for i := range 30 {
			l.Record(change("a", i))
			want := fmt.Sprintf(`msg="a is %d" event=e`, i)
			if diff := cmp.Diff([]string{want}, lines()); diff != "" {
				t.Errorf("change %d (-want +got):\n%s", i, diff)
			}
			<-time.After(10 * time.Second)
		}
	})
}

// TestFlaps: a subject that changes 90 times a second has few entries. The summaries have
// the number of changes, and the last entry is the last change. Another subject has its
// entry immediately.
func TestFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines, stop := start(t)
		const seconds, interval = 60, 11 * time.Millisecond // no change comes at the time of a summary
		n := 0
		for range seconds * time.Second / interval {
			l.Record(change("a", n))
			n++
			<-time.After(interval)
		}
		got := lines()
		if len(got) > seconds {
			t.Errorf("%d entries in %d s", len(got), seconds)
		}
		if diff := cmp.Diff([]string{
			`msg="a is 0" event=e`, `msg="a is 5" event=e`,
			`msg="a is 909 (the last of 904 changes)" event=e count=904`,
		}, []string{got[0], got[5], got[6]}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		l.Record(change("b", 0))
		if diff := cmp.Diff([]string{`msg="b is 0" event=e`}, lines()); diff != "" {
			t.Errorf("another subject (-want +got):\n%s", diff)
		}
		<-time.After(summaryInterval)
		if got = lines(); len(got) != 1 || !strings.HasPrefix(got[0], fmt.Sprintf(`msg="a is %d (the last of `, n-1)) {
			t.Errorf("the last change is %d, and its entry %q", n-1, got)
		}
		stop()
	})
}

// TestFlush: a change without an entry gets one at the end. A single one has no count.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines, stop := start(t)
		for i := range burst {
			l.Record(change("a", i))
		}
		lines()
		l.Record(change("a", burst))
		l.Record(change("b", 0))
		stop()
		if diff := cmp.Diff([]string{`msg="b is 0" event=e`, `msg="a is 6" event=e`}, lines()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestSubjectsAreDropped: VIPs that are removed from the configuration use no memory.
func TestSubjectsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, stop := start(t)
		for i := range 100 {
			l.Record(change(strconv.Itoa(i), 0))
		}
		<-time.After(subjectLifetime + summaryInterval + time.Second)
		stop()
		if len(l.subjects) > 0 {
			t.Errorf("%d subjects", len(l.subjects))
		}
	})
}
