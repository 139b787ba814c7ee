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

// socketBuffer is the buffer size for each direction; the kernel doubles it
// (socket(7)). A request head fits. A body for a slow client waits at the router
// and not in the memory of this host.
const socketBuffer = 8 << 10

// dialTCP opens a TCP connection to the ingress or to a proxy. TCP keep-alive is
// off because the connection is short.
//
// The dialer sets no local address, not even an empty one. [net.Dialer.DialTCP]
// would bind the socket without the peer address, and the port would be taken
// for all destinations.
func dialTCP(ctx context.Context, addr netip.AddrPort, timeout time.Duration) (*net.TCPConn, error) {
	dialer := &net.Dialer{Timeout: timeout, KeepAlive: -1, Control: nonblock.BufferSizes(socketBuffer)}
	conn, err := dialer.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	tcp, is := conn.(*net.TCPConn)
	if !is {
		return nil, errors.Join(fmt.Errorf("cannot connect to %v: the connection is a %T", addr, conn), conn.Close())
	}
	return tcp, nil
}

type plainStream struct {
	*net.TCPConn
	used bool // a request was sent before
	raw  syscall.RawConn
	step func(fd uintptr) bool // created once, so that RoundTrip allocates nothing

	// State of the current RoundTrip, used by step.
	request, response []byte
	written, read     int
	started           bool
	failed            error
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
		return p.readResponse(int(fd))
	}
	return p, nil
}

// errStaleConnection is an idle connection that has ended, or with unrequested
// bytes that would be read as the next response. Nothing was sent.
var errStaleConnection = errors.New("the idle connection cannot take a request")

// RoundTrip implements stream. It writes inside of a read. The runtime clears the
// poller's state and consults the poller after the first attempt. This saves the usual
// first read, which finds nothing because no response can have arrived yet.
func (p *plainStream) RoundTrip(request, response []byte) (int, error) {
	p.request, p.response, p.written, p.read, p.started, p.failed = request, response, 0, 0, false, nil
	err := p.raw.Read(p.step)
	p.request, p.response = nil, nil
	switch {
	case p.failed != nil:
		return 0, p.failed
	case err != nil:
		return 0, err
	case p.written < len(request): // larger than the socket's buffer
		if _, err := p.Write(request[p.written:]); err != nil {
			return 0, err
		}
		return p.Read(response)
	case p.read == 0:
		return 0, io.EOF
	default:
		return p.read, nil
	}
}

// writeRequest writes as much of the request as the socket takes, and reports
// whether the whole request was sent.
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

// readResponse reads, and reports whether bytes or the end have arrived.
func (p *plainStream) readResponse(fd int) bool {
	n, err := nonblock.Read(fd, p.response)
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
