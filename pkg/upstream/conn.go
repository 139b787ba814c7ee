// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/internal/nonblock"
)

// socketBuffer is asked of the kernel for each direction; it takes twice as much
// (socket(7)). A request head fits, and a body that the client is slow to read
// waits at the router instead of in this host's memory.
const socketBuffer = 8 << 10

// newDialer returns what opens connections to the ingress. They are short: TCP
// keep-alive would be set up for nothing.
func newDialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAlive: -1, Control: nonblock.Buffers(socketBuffer)}
}

// conn is one connection to an ingress address.
type conn struct {
	*net.TCPConn
	addr  netip.AddrPort
	route *route    // under which it was opened
	since time.Time // when it became idle; zero for one that has not been used
	raw   syscall.RawConn
	say   func(fd uintptr) bool // made once, so that asking allocates nothing

	// Of the request that is being asked, by say.
	request, answer []byte
	written, read   int
	begun           bool
	failed          error
}

func newConn(tcp *net.TCPConn, addr netip.AddrPort, r *route) (*conn, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{TCPConn: tcp, addr: addr, route: r, raw: raw}
	c.say = func(fd uintptr) bool {
		if !c.begun {
			return !c.begin(int(fd))
		}
		return c.hear(int(fd))
	}
	return c, nil
}

// errStale is a kept connection that has ended, or that holds bytes that nobody
// asked for, which would be read as the next answer. Nothing was sent.
var errStale = errors.New("the kept connection cannot take a request")

// Ask sends a request, and reads what the answer begins with; at the end of the
// connection it returns [io.EOF].
//
// It writes inside of a read: the runtime forgets what the poller has said
// before, and asks the poller as soon as the first try is over. So the usual
// first read, which finds nothing since no answer can be there yet, is left out.
func (c *conn) Ask(request, answer []byte) (int, error) {
	c.request, c.answer, c.written, c.read, c.begun, c.failed = request, answer, 0, 0, false, nil
	err := c.raw.Read(c.say)
	c.request, c.answer = nil, nil
	switch {
	case c.failed != nil:
		return 0, c.failed
	case err != nil:
		return 0, err
	case c.written < len(request): // larger than the socket's buffer
		if _, err := c.Write(request[c.written:]); err != nil {
			return 0, err
		}
		return c.Read(answer)
	case c.read == 0:
		return 0, io.EOF
	default:
		return c.read, nil
	}
}

// begin writes the request as far as it goes, and reports whether its answer is
// what to wait for now.
func (c *conn) begin(fd int) (sent bool) {
	c.begun = true
	if !c.since.IsZero() {
		if _, err := nonblock.Peek(fd); !errors.Is(err, syscall.EAGAIN) {
			c.failed = errStale
			return false
		}
	}
	n, err := nonblock.Write(fd, c.request)
	if err != nil && !errors.Is(err, syscall.EAGAIN) {
		c.failed = os.NewSyscallError("write", err)
		return false
	}
	c.written = n
	return n == len(c.request)
}

// hear reads, and reports whether there was anything, be it the end.
func (c *conn) hear(fd int) bool {
	n, err := nonblock.Read(fd, c.answer)
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return false
	case err != nil:
		c.failed = os.NewSyscallError("read", err)
	default:
		c.read = n
	}
	return true
}
