// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPostEndsWait: a function that is posted at any moment of a wait ends the wait, or the
// wait takes it. A wait with neither has lost the wake-up: it would end after beatInterval only.
func TestPostEndsWait(t *testing.T) {
	for name, reached := range map[string]func(*Loop, int) bool{
		"before or after it takes what was posted": func(*Loop, int) bool { return true },
		"after it":      func(l *Loop, _ int) bool { return hasTaken(l) },
		"in the kernel": func(l *Loop, thread int) bool { return hasTaken(l) && sleeps(thread) },
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			for range 3 { // on a busy machine, a wait can end before the test posts
				if err = postDuringWait(t, reached); err == nil {
					return
				}
			}
			t.Error(err)
		})
	}
}

// takenCap is the capacity of Loop.posted when a wait took what was posted.
const takenCap = 7

func hasTaken(l *Loop) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cap(l.posted) == takenCap
}

// sleeps reports the state of a thread (proc_pid_stat(5)).
func sleeps(thread int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", thread))
	_, state, _ := bytes.Cut(text, []byte(") "))
	return err == nil && bytes.HasPrefix(state, []byte("S"))
}

// postDuringWait posts two functions when a wait reached a moment. They must end it, and
// run.
func postDuringWait(t *testing.T, reached func(l *Loop, thread int) bool) error {
	t.Helper()
	l := newLoop(t)
	l.Post(func() {})
	if _, err := l.wait(time.Now().Add(beatInterval)); err != nil { // has the first event of the event descriptor
		return err
	}
	l.running = make([]func(), 0, takenCap)

	l.mu.Lock() // the wait stops before it takes what was posted
	type result struct {
		events int
		err    error
	}
	thread, ended := make(chan int, 1), make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- unix.Gettid()
		n, err := l.wait(time.Now().Add(beatInterval))
		ended <- result{n, err}
	}()
	id := <-thread
	announced := await(l.waiting.Load)
	l.mu.Unlock()
	if !announced {
		<-ended
		return errors.New("a wait takes what was posted before it announces itself")
	}
	if !await(func() bool { return len(ended) > 0 || reached(l, id) }) {
		t.Fatal("the wait has not reached the moment")
	}
	ran := 0
	l.Post(func() { ran++ })
	l.Post(func() { ran++ }) // relies on the wake-up of the first one
	if r := <-ended; r.err != nil {
		return r.err
	} else if r.events == 0 && len(l.running) == 0 {
		return errors.New("no event ended the wait")
	}
	for range 2 { // this wait, or the next one, has them
		for _, f := range l.running {
			f()
		}
		if ran == 2 {
			return nil
		}
		if _, err := l.wait(time.Now().Add(beatInterval)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d of two functions ran", ran)
}

// TestPostWakesAfterItAppends: a wait that is ended first would find nothing, and the next
// one would not be ended.
func TestPostWakesAfterItAppends(t *testing.T) {
	l := newLoop(t)
	l.waiting.Store(true)
	l.mu.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Post(func() {})
	}()
	blocked := regexp.MustCompile(`\[sync\.Mutex\.Lock[^\n]*\n(?:[^\n]+\n)*?[^\n]*\(\*Loop\)\.Post`)
	stacks := make([]byte, 1<<20)
	if !await(func() bool { return blocked.Match(stacks[:runtime.Stack(stacks, true)]) }) {
		t.Error("Post does not wait for the lock")
	}
	if !l.waiting.Load() {
		t.Error("Post ends the wait before its function is there")
	}
	l.mu.Unlock()
	<-done
	if l.waiting.Load() {
		t.Error("Post does not end the wait")
	}
}

// newLoop returns a loop that does not run.
func newLoop(t *testing.T) *Loop {
	t.Helper()
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = unix.Close(l.epoll), unix.Close(l.eventFD), l.outerFile.Close() })
	return l
}

// await waits until something is true. It returns false after 10 s.
func await(what func() bool) bool {
	for end := time.Now().Add(10 * time.Second); !what(); runtime.Gosched() {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
