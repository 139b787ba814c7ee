// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// This file makes a program that takes what the kernel counts for each user ID, as another
// process with the ID of the service can. It is built into the program with -overlay.
func init() {
	what := os.Getenv("HTTP01_SAMEUSER")
	if what == "" {
		return
	}
	take, ok := map[string]func() error{
		"threads": sleepInThreads, "signals": queueSignals,
		"pipes": enlargePipes, "inotify": createInotify,
	}[what]
	if !ok {
		fmt.Println("unknown:", what)
		os.Exit(1)
	}
	if err := take(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("taken")
	time.Sleep(time.Hour)
}

// sleepInThreads starts 600 threads, each with a goroutine that waits.
func sleepInThreads() error {
	started, never := make(chan struct{}), make(chan struct{})
	for range 600 {
		go func() {
			runtime.LockOSThread()
			started <- struct{}{}
			<-never
		}()
	}
	for range 600 {
		<-started
	}
	return nil
}

// queueSignals queues real-time signals to a thread that blocks them.
func queueSignals() error {
	runtime.LockOSThread()
	const signal = 50
	blocked := unix.Sigset_t{}
	blocked.Val[0] = 1 << (signal - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, nil); err != nil {
		return err
	}
	for range 2000 {
		if err := unix.Tgkill(os.Getpid(), unix.Gettid(), signal); err != nil {
			return err
		}
	}
	return nil
}

// enlargePipes takes the memory for pipes: 64 MiB (fs.pipe-user-pages-soft), and more.
func enlargePipes() error {
	for range 80 {
		var pipe [2]int
		if err := unix.Pipe(pipe[:]); err != nil {
			return err
		}
		_, err := unix.FcntlInt(uintptr(pipe[0]), unix.F_SETPIPE_SZ, 1<<20)
		if errors.Is(err, unix.EPERM) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return errors.New("no limit for pipes")
}

// createInotify creates inotify instances until it cannot (fs.inotify.max_user_instances).
func createInotify() error {
	for {
		_, err := unix.InotifyInit1(0)
		if errors.Is(err, unix.EMFILE) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
