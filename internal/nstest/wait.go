// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nstest

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// Timeout bounds every wait for a condition on a loaded machine. A test that passes
// never reaches it.
const Timeout = 30 * time.Second

// Poll calls done every 5 ms until it returns true, and returns false after Timeout.
func Poll(done func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(Timeout); !done(); <-tick.C {
		if time.Now().After(end) {
			return done()
		}
	}
	return true
}

// Await is Poll. It ends the test when Poll returns false.
func Await(t testing.TB, what string, done func() bool) {
	t.Helper()
	if !Poll(done) {
		t.Fatalf("not within %v: %s", Timeout, what)
	}
}

// Log is a writer that a test reads while other goroutines write.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the text written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count returns how often text occurs in what was written so far.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }
