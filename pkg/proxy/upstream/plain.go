// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/nonblock"
)

// socketBuffer is asked of the kernel for each direction; it takes twice as much
// (socket(7)). A request head fits, and a body that the client is slow to read
// waits at the router instead of in this host's memory.
const socketBuffer = 8 << 10

// dialTCP opens a TCP connection to the ingress, or to a proxy. It is short: TCP
// keep-alive would be set up for nothing.
//
// It has no local address, not even an empty one, for which [net.Dialer.DialTCP]
// binds the socket before it knows the peer: a port would then be taken from all
// destinations.
func dialTCP(ctx context.Context, addr netip.AddrPort, timeout time.Duration) (*net.TCPConn, error) {
	dialer := &net.Dialer{Timeout: timeout, KeepAlive: -1, Control: nonblock.BufferSizes(socketBuffer)}
	conn, err := dialer.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	tcp, is := conn.(*net.TCPConn)
	if !is {
		return nil, errors.Join(fmt.Errorf("dial %v: it is a %T", addr, conn), conn.Close())
	}
	return tcp, nil
}

// plainAddrs is a stream with nothing on top of TCP.
type plainStream struct {
	*net.TCPConn
	used bool // it was asked before
	raw  syscall.RawConn
	step func(fd uintptr) bool // made once, so that asking allocates nothing

	// Of the request that is being asked, by say.
	request, answer []byte
	written, read   int
	started         bool
	failed          error
}

func newPlainStream(tcp *net.TCPConn) (*plainStream, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &plainStream{TCPConn: tcp, raw: raw}
	p.step = func(fd uintptr) bool {
		if !p.started {
			return !p.writeRequest(int(fd))
		}
		return p.readAnswer(int(fd))
	}
	return p, nil
}

// errStaleConnection is a kept connection that has ended, or that holds bytes that nobody
// asked for, which would be read as the next answer. Nothing was sent.
var errStaleConnection = errors.New("the kept connection cannot take a request")

// RoundTrip implements stream. It writes inside of a read: the runtime forgets what the
// poller has said before, and asks the poller as soon as the first try is over. So
// the usual first read, which finds nothing since no answer can be there yet, is
// left out.
func (p *plainStream) RoundTrip(request, answer []byte) (int, error) {
	p.request, p.answer, p.written, p.read, p.started, p.failed = request, answer, 0, 0, false, nil
	err := p.raw.Read(p.step)
	p.request, p.answer = nil, nil
	switch {
	case p.failed != nil:
		return 0, p.failed
	case err != nil:
		return 0, err
	case p.written < len(request): // larger than the socket's buffer
		if _, err := p.Write(request[p.written:]); err != nil {
			return 0, err
		}
		return p.Read(answer)
	case p.read == 0:
		return 0, io.EOF
	default:
		return p.read, nil
	}
}

// writeRequest writes the request as far as it goes, and reports whether its answer is
// what to wait for now.
func (p *plainStream) writeRequest(fd int) (sent bool) {
	p.started = true
	if p.used {
		if _, err := nonblock.Peek(fd); !errors.Is(err, syscall.EAGAIN) {
			p.failed = errStaleConnection
			return false
		}
	}
	p.used = true
	n, err := nonblock.Write(fd, p.request)
	if err != nil && !errors.Is(err, syscall.EAGAIN) {
		p.failed = os.NewSyscallError("write", err)
		return false
	}
	p.written = n
	return n == len(p.request)
}

// readAnswer reads, and reports whether there was anything, be it the end.
func (p *plainStream) readAnswer(fd int) bool {
	n, err := nonblock.Read(fd, p.answer)
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return false
	case err != nil:
		p.failed = os.NewSyscallError("read", err)
	default:
		p.read = n
	}
	return true
}
