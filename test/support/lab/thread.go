// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// errNodeClosed means that the node's thread ended with its lab.
var errNodeClosed = errors.New("the lab is closed")

// InNamespace runs f on a thread in the node's namespace that ends with f. Sockets that f opens
// belong to the node, unless another goroutine opens them.
func (n *Node) InNamespace(f func() error) error { return InNamespace(netnsPath(n.Namespace), f) }

// InNamespace runs f on a thread in the network namespace of a path and returns its error.
//
// A network namespace belongs to a thread. The goroutine therefore keeps its thread, and
// the runtime ends the thread with it. The main thread is not used: it cannot end, and
// /proc/self shows its namespace.
func InNamespace(path string, f func() error) error {
	return onThread(func() error { return enter(path) }, f)
}

func onThread(enter, f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			result <- onThread(enter, f)
			runtime.UnlockOSThread()
			return
		}
		if err := enter(); err != nil {
			result <- err
			return
		}
		result <- f()
	}()
	return <-result
}

func enter(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open network namespace %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	return nil
}

// thread is a thread that stays in a namespace while the lab exists. It starts all
// processes, so that the parent-death signal, which follows the thread that forked
// (prctl(2), PR_SET_PDEATHSIG), is sent when the lab's process ends and not before.
type thread struct {
	work chan func()
	quit chan struct{}
	done chan struct{}
}

func newThread(namespace string) (*thread, error) {
	t := &thread{work: make(chan func()), quit: make(chan struct{}), done: make(chan struct{})}
	ready := make(chan error, 1)
	go func() {
		defer close(t.done)
		err := InNamespace(netnsPath(namespace), func() error {
			ready <- nil
			t.loop()
			return nil
		})
		if err != nil {
			ready <- err
		}
	}()
	return t, <-ready
}

func (t *thread) loop() {
	for {
		select {
		case f := <-t.work:
			f()
		case <-t.quit:
			return
		}
	}
}

// do runs f on the thread. f must not block for long.
func (t *thread) do(f func() error) error {
	result := make(chan error, 1)
	select {
	case t.work <- func() { result <- f() }:
		return <-result
	case <-t.done:
		return errNodeClosed
	}
}

func (t *thread) close() {
	close(t.quit)
	<-t.done
}
