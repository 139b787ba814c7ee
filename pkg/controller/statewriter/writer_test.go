// SPDX-License-Identifier: Apache-2.0

package statewriter

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
)

// writerTest is a writer that runs in a synctest bubble.
type writerTest struct {
	*Writer

	log     *nstest.Log
	written []string
	stop    func()
}

func startWriter(t *testing.T) *writerTest {
	t.Helper()
	w := &writerTest{log: &nstest.Log{}}
	w.Writer = New(slog.New(slog.NewTextHandler(w.log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	w.stop = func() {
		cancel()
		must(t, <-ended)
	}
	return w
}

// saveAfter saves a file whose write takes some time.
func (w *writerTest) saveAfter(name string, d time.Duration) {
	w.Save("config", name, func() error {
		<-time.After(d)
		w.written = append(w.written, name)
		return nil
	})
}

// TestFlushWritesAll: files whose write has not begun before the end are written.
func TestFlushWritesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWriter(t)
		w.saveAfter("first", flushTimeout/4)
		synctest.Wait()
		w.saveAfter("second", flushTimeout/4)
		w.stop()
		w.saveAfter("after the end", flushTimeout/4)
		w.Flush()
		if diff := cmp.Diff([]string{"after the end", "first", "second"},
			slices.Sorted(slices.Values(w.written))); diff != "" || w.log.String() != "" {
			t.Errorf("(-want +got):\n%s\n%s", diff, w.log.String())
		}
	})
}

// TestFlushIsBounded: a disk whose writes take five seconds delays the end of the service by
// flushTimeout, however many files wait. The journal reports it.
func TestFlushIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWriter(t)
		for _, name := range []string{"first", "second", "third"} {
			w.saveAfter(name, 5*time.Second)
		}
		synctest.Wait()
		begin := time.Now()
		w.stop()
		w.Flush()
		if took := time.Since(begin); took != flushTimeout {
			t.Errorf("the end took %v, want %v", took, flushTimeout)
		}
		for _, name := range []string{"first", "second", "third"} {
			if want := "cannot save the " + name + " within 2s"; !strings.Contains(w.log.String(), want) {
				t.Errorf("the journal lacks %q:\n%s", want, w.log.String())
			}
		}
		<-time.After(time.Minute) // a write that began is not interrupted
		synctest.Wait()
		if diff := cmp.Diff([]string{"first", "second", "third"}, slices.Sorted(slices.Values(w.written))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestFlushRepeatsFailedWrites: a write that failed before the end of the service is
// repeated at the end, and its error is logged once.
func TestFlushRepeatsFailedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWriter(t)
		full := true
		for range 3 {
			w.Save("config", "configuration", func() error {
				if full {
					return errors.New("no space left on device")
				}
				w.written = append(w.written, "configuration")
				return nil
			})
			synctest.Wait()
		}
		if n := strings.Count(w.log.String(), "no space left"); n != 1 {
			t.Errorf("%d entries about one error:\n%s", n, w.log.String())
		}
		full = false
		w.stop()
		w.Flush()
		if diff := cmp.Diff([]string{"configuration"}, w.written); diff != "" {
			t.Errorf("(-want +got):\n%s\n%s", diff, w.log.String())
		}
	})
}

// must ends the test after an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
