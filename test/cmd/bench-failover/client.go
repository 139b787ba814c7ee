// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// awaitAnswer sends the request repeatedly until the solver's answer arrives, and returns
// the time of its last byte.
//
// It uses plain system calls on its own thread. The wake-ups of the runtime's poller would
// distort times of this size.
func (b *bench) awaitAnswer(ctx context.Context, vip netip.Addr) (answered time.Time, err error) {
	request := []byte("GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: " + b.host +
		"\r\nConnection: close\r\n\r\n")
	err = b.client.InNamespace(func() error {
		buffer := make([]byte, 64<<10)
		// Without this a sleep can last 50 µs longer than requested (PR_SET_TIMERSLACK).
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("set the timer slack: %w", err)
		}
		for ctx.Err() == nil {
			text, err := exchange(vip, request, buffer)
			answered = time.Now()
			switch {
			case err == nil && strings.HasPrefix(text, "HTTP/1.1 200 ") && strings.Contains(text, answer):
				return nil
			case err == nil:
				return fmt.Errorf("wrong answer: %.300q", text)
			case !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ECONNRESET):
				return err
			}
			if err := pauseBetweenTries(); err != nil {
				return err
			}
		}
		return fmt.Errorf("no answer: %w", context.Cause(ctx))
	})
	return answered, err
}

// retryPause is the delay between two attempts. A client without a pause takes a core from the
// service, and would measure the scheduler.
const retryPause = 50 * time.Microsecond

func pauseBetweenTries() error {
	pause := unix.NsecToTimespec(retryPause.Nanoseconds())
	if err := unix.Nanosleep(&pause, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("pause: %w", err)
	}
	return nil
}

// exchange opens one connection, sends the request and reads the answer to its end.
func exchange(vip netip.Addr, request, buffer []byte) (string, error) {
	family, address := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: 80, Addr: vip.As16()})
	if vip.Is4() {
		family, address = unix.AF_INET, &unix.SockaddrInet4{Port: 80, Addr: vip.As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("create a socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	// SO_SNDTIMEO also limits connect (socket(7)).
	bound := unix.NsecToTimeval(moveTimeout.Nanoseconds())
	for _, option := range []int{unix.SO_SNDTIMEO, unix.SO_RCVTIMEO} {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &bound); err != nil {
			return "", fmt.Errorf("set the timeout of the socket: %w", err)
		}
	}
	if err := unix.Connect(fd, address); err != nil {
		return "", fmt.Errorf("connect to %s: %w", vip, err)
	}
	if _, err := unix.Write(fd, request); err != nil {
		return "", fmt.Errorf("send to %s: %w", vip, err)
	}
	total := 0
	for total < len(buffer) {
		n, err := unix.Read(fd, buffer[total:])
		if err != nil {
			return "", fmt.Errorf("read from %s: %w", vip, err)
		}
		if n == 0 {
			break
		}
		total += n
	}
	return string(buffer[:total]), nil
}
