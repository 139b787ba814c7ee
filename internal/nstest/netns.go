// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nstest

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Netns is an additional network namespace. It disappears with its last descriptor and
// socket. Nil is the namespace of the test.
type Netns struct{ file *os.File }

// NewNetns makes a network namespace for a test.
func NewNetns(t testing.TB) *Netns {
	t.Helper()
	type result struct {
		file *os.File
		err  error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			made <- result{err: err}
			return
		}
		f, err := os.Open("/proc/thread-self/ns/net")
		made <- result{f, err}
	}()
	r := <-made
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { _ = r.file.Close() })
	n := &Netns{r.file}
	n.Run(t, "ip", "link", "set", "lo", "up")
	return n
}

// Path returns a path of the namespace that other processes can open.
func (n *Netns) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd()) }

// Run runs a command in the namespace and returns its output.
func (n *Netns) Run(t testing.TB, args ...string) string {
	t.Helper()
	return Run(t, "nsenter", append([]string{"--net=" + n.Path(), "--"}, args...)...)
}

// In runs f in the namespace.
func (n *Netns) In(f func()) {
	if n == nil {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err)
		}
		f()
	}()
	<-done
}
