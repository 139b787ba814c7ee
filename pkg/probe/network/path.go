// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/probe"
)

// The parts of an echo (RFC 792, RFC 4443).
const (
	echoHeader = 8
	markBytes  = 4
	smallEcho  = 64 // bytes, headers and all
	header4    = 20 // of IPv4 without options
	header6    = 40
	request4   = 8
	reply4     = 0
	request6   = 128
	reply6     = 129
)

const (
	echoTimes = 4
	echoWait  = 400 * time.Millisecond // for the replies, each time
	maxMTU    = 65535
)

// path sends small and large echo requests side by side until both are answered,
// or a few times: one that gets lost is no black hole.
func path(ctx context.Context, q *probe.PathQuestion, fd int) (*probe.Path, error) {
	if q.MTU <= smallEcho || q.MTU > maxMTU {
		return nil, fmt.Errorf("look at the path: packets of %d bytes", q.MTU)
	}
	socket, err := take(ctx, fd)
	if err != nil {
		return nil, fmt.Errorf("look at the path: %w", err)
	}
	defer socket.Close()
	e := &echoes{socket: socket, ipv6: q.IPv6, large: q.MTU}
	_, _ = rand.Read(e.mark[:])
	for range echoTimes {
		if err := e.round(ctx); err != nil {
			return nil, fmt.Errorf("look at the path: %w", err)
		}
		if e.found.Small && (e.found.Large || e.found.TooBig) {
			break
		}
	}
	return &e.found, nil
}

// echoes are the requests of one question, and what came back.
type echoes struct {
	socket *os.File
	ipv6   bool
	large  int
	mark   [markBytes]byte // others on this host send echoes too
	found  probe.Path
}

// round sends what is not answered yet, and listens for a while.
func (e *echoes) round(ctx context.Context) error {
	if !e.found.Small {
		if err := e.send(1, smallEcho); err != nil {
			return err
		}
	}
	if !e.found.Large {
		if err := e.send(2, e.large); err != nil {
			return err
		}
	}
	until := time.Now().Add(echoWait)
	if deadline, bounded := ctx.Deadline(); bounded && deadline.Before(until) {
		until = deadline
	}
	if err := e.socket.SetReadDeadline(until); err != nil {
		return err
	}
	buffer := make([]byte, maxMTU)
	for !e.found.Small || !e.found.Large {
		n, err := e.socket.Read(buffer)
		switch {
		case err == nil:
			e.hear(buffer[:n])
		case timeIsOver(err):
			return nil
		default:
			if err := e.note(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// send sends one request: its sequence number, then a mark, then zeros.
func (e *echoes) send(seq byte, size int) error {
	kind, headers := byte(request4), header4
	if e.ipv6 {
		kind, headers = request6, header6
	}
	message := make([]byte, size-headers)
	message[0], message[7] = kind, seq
	copy(message[echoHeader:], e.mark[:])
	if !e.ipv6 { // for ICMPv6 the kernel sums up
		binary.BigEndian.PutUint16(message[2:], sum(message))
	}
	_, err := e.socket.Write(message)
	return e.note(err)
}

// note takes from an error what it says about the path. On a socket that is
// connected the next call brings what a host on the way has said.
func (e *echoes) note(err error) error {
	switch {
	case errors.Is(err, unix.EMSGSIZE):
		e.found.TooBig = true
		return nil
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.EPERM):
		return nil // then nothing comes back, and that is the answer
	default:
		return err
	}
}

func (e *echoes) hear(message []byte) {
	kind := byte(reply6)
	if !e.ipv6 {
		kind = reply4
		if len(message) < header4 {
			return
		}
		message = message[min(len(message), int(message[0]&0x0f)*4):]
	}
	if len(message) < echoHeader+markBytes || message[0] != kind || !bytes.Equal(message[echoHeader:echoHeader+markBytes], e.mark[:]) {
		return
	}
	switch message[7] {
	case 1:
		e.found.Small = true
	case 2:
		e.found.Large = true
	}
}
