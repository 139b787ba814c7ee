// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// The TCP echo server and client use plain system calls on their own threads, to keep their
// own cost small next to that of a table in the kernel.

// message is the echoed text.
const message = "hello, echo server"

// deadline is the timeout of every socket call in seconds.
const deadline = 10

// echo is a TCP echo server that handles one message a connection.
type echo struct {
	fd      int
	threads errgroup.Group
}

func startEcho(n *lab.Node, at netip.AddrPort) (*echo, error) {
	e := &echo{}
	err := n.InNamespace(func() error {
		var err error
		e.fd, err = listen(at)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", at, err)
	}
	for range callers {
		e.threads.Go(func() error { return n.InNamespace(e.serve) })
	}
	return e, nil
}

func listen(at netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	}
	if err == nil {
		err = unix.Listen(fd, 1024)
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return fd, err
}

// serve accepts connections until the listener is shut down.
func (e *echo) serve() error {
	buffer := make([]byte, len(message))
	for {
		fd, err := retryInterrupted(func() (int, error) {
			fd, _, err := unix.Accept4(e.fd, unix.SOCK_CLOEXEC)
			return fd, err
		})
		switch {
		case errors.Is(err, unix.ECONNABORTED):
			continue
		case errors.Is(err, unix.EINVAL):
			return nil // shut down
		case err != nil:
			return fmt.Errorf("accept: %w", err)
		}
		// The client reports errors of this side.
		if err := setTimeouts(fd); err == nil {
			if n, err := retryInterrupted(func() (int, error) { return unix.Read(fd, buffer) }); err == nil {
				_, _ = retryInterrupted(func() (int, error) { return unix.Write(fd, buffer[:n]) })
			}
		}
		_ = unix.Close(fd)
	}
}

// stop ends the server's threads. shutdown wakes them; close does not.
func (e *echo) stop() error {
	err := unix.Shutdown(e.fd, unix.SHUT_RDWR)
	return errors.Join(err, e.threads.Wait(), unix.Close(e.fd))
}

// echoOnce connects, sends the message, and reads the echo to its end.
func echoOnce(at netip.AddrPort) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("create a socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := setTimeouts(fd); err != nil {
		return err
	}
	// An interrupted connect continues.
	_, err = retryInterrupted(func() (int, error) {
		return 0, unix.Connect(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	})
	if err != nil {
		return fmt.Errorf("connect to %s: %w", at, err)
	}
	if _, err := retryInterrupted(func() (int, error) { return unix.Write(fd, []byte(message)) }); err != nil {
		return fmt.Errorf("send to %s: %w", at, err)
	}
	buffer := make([]byte, 2*len(message))
	total := 0
	for {
		n, err := retryInterrupted(func() (int, error) { return unix.Read(fd, buffer[total:]) })
		if err != nil {
			return fmt.Errorf("read from %s: %w", at, err)
		}
		if n == 0 {
			break
		}
		total += n
	}
	if got := string(buffer[:total]); got != message {
		return fmt.Errorf("%s echoed %q", at, got)
	}
	return nil
}

// retryInterrupted repeats a call that a signal interrupted. The runtime sends signals to
// its threads, and a call on a socket with a timeout is not restarted (signal(7)).
func retryInterrupted(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// setTimeouts limits every call on a socket. SO_SNDTIMEO also limits connect (socket(7)).
func setTimeouts(fd int) error {
	limit := unix.Timeval{Sec: deadline}
	for _, option := range []int{unix.SO_SNDTIMEO, unix.SO_RCVTIMEO} {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &limit); err != nil {
			return fmt.Errorf("set the timeout of a socket: %w", err)
		}
	}
	return nil
}
