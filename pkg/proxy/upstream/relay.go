// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// errTimeUsedUp means that the time was used up before a connection attempt.
var errTimeUsedUp = fmt.Errorf("%w: %w", cause.Details{Reason: cause.DeadlinePassed}, os.ErrDeadlineExceeded)

// upstreamReadError marks errors of the upstream while its response is relayed, to
// separate them from those of the client.
type upstreamReadError struct{ error }

// sendAndReadHead sends the request and reads until the head of the final response is
// complete.
func (x *exchange) sendAndReadHead(conn stream, a *attempt, request []byte) error {
	if err := conn.SetDeadline(a.firstByteBy); err != nil {
		return err
	}
	x.resizeInput(max(firstReadSize, len(x.input)))
	n, err := conn.RoundTrip(request, x.input[x.end:])
	if err := x.recordRead(conn, a, n, err); err != nil {
		return err
	}
	return x.readHead(conn, a)
}

// deadlineReader is the part of a connection that reading a head uses.
type deadlineReader interface {
	io.Reader
	SetDeadline(t time.Time) error
}

// readHead reads until the head of the final response is complete.
func (x *exchange) readHead(conn deadlineReader, a *attempt) error {
	for interim := 0; ; {
		n, err := x.response.parse(x.input[x.start:x.end])
		switch {
		case err != nil:
			return err
		case n == 0:
			if err := x.readMoreHead(conn, a); err != nil {
				return err
			}
		case !x.response.isInterim():
			x.start += n
			return nil
		case x.response.status == 101:
			return malformed(cause.SwitchingProtocols)
		default:
			if interim++; interim > maxInterim {
				return malformed(cause.TooManyInterim)
			}
			x.start += n
			x.response = response{}
		}
	}
}

// readMoreHead reads more of the head. The first byte ends the shorter deadline that
// leaves time for other addresses.
func (x *exchange) readMoreHead(conn deadlineReader, a *attempt) error {
	switch unused := x.end - x.start; {
	case unused == maxResponseHead:
		return malformed(cause.HeadTooLong)
	case x.end < len(x.input):
	default:
		// The parser counts from the beginning of the head, so the head may move.
		size := max(firstReadSize, len(x.input))
		if unused == size {
			size = min(2*size, maxResponseHead)
		}
		x.resizeInput(size)
	}
	n, err := conn.Read(x.input[x.end:])
	return x.recordRead(conn, a, n, err)
}

func (x *exchange) recordRead(conn deadlineReader, a *attempt, n int, err error) error {
	if n > 0 && !x.received {
		x.received = true
		if a.firstByteBy.Before(a.deadline) {
			if err := conn.SetDeadline(a.deadline); err != nil {
				return err
			}
		}
	}
	x.end += n
	if n > 0 {
		return nil
	}
	return err
}

// relay sends the response, whose head is in x.response, to the client. It sends
// received bytes before it waits for more, except a head whose body has not begun.
// Until then another response can still be given.
func (x *exchange) relay(conn io.Reader, client io.Writer, body framing, http10 bool) error {
	rechunk := body == byChunks && !http10
	x.output = x.response.appendHead(x.output, rechunk)
	x.response.buf = nil // it may be larger than the relay needs
	switch body {
	case byLength:
		return x.relayLength(conn, client)
	case byChunks:
		return x.relayChunks(conn, client, rechunk)
	case untilClose:
		return x.relayUntilClose(conn, client)
	default:
		return x.flush(client)
	}
}

func (x *exchange) relayLength(conn io.Reader, client io.Writer) error {
	for left := x.response.bodyLength; ; {
		n := int(min(left, int64(x.end-x.start)))
		if err := x.relayBytes(client, n); err != nil {
			return err
		}
		if left -= int64(n); left == 0 {
			return x.flush(client)
		}
		if err := x.readMore(conn); err != nil {
			return err
		}
	}
}

func (x *exchange) relayUntilClose(conn io.Reader, client io.Writer) error {
	for left := maxBody; ; {
		n := x.end - x.start
		if left -= n; left < 0 {
			return &upstreamReadError{ErrTooLarge}
		}
		if err := x.relayBytes(client, n); err != nil {
			return err
		}
		switch err := x.readMore(conn); {
		case err == nil:
		case isEOF(err):
			return x.flush(client)
		default:
			return err
		}
	}
}

// relayChunks decodes the body. For a client that supports chunks, it encodes the
// body again. The framing that goes out is therefore the one that was understood.
func (x *exchange) relayChunks(conn io.Reader, client io.Writer, rechunk bool) error {
	var c chunkReader
	started := false
	for {
		used, data, err := c.next(x.input[x.start:x.end])
		if err != nil {
			return &upstreamReadError{err}
		}
		x.start += used
		if len(data) > 0 {
			started = true
			x.appendBody(data, rechunk)
		}
		if c.done() {
			if rechunk {
				x.output = append(x.output, "0\r\n\r\n"...)
			}
			return x.flush(client)
		}
		if used > 0 && x.start < x.end {
			continue
		}
		if started {
			if err := x.flush(client); err != nil {
				return err
			}
		}
		if err := x.readMore(conn); err != nil {
			return err
		}
	}
}

func (x *exchange) appendBody(data []byte, rechunk bool) {
	if !rechunk {
		x.output = append(x.output, data...)
		return
	}
	x.output = strconv.AppendUint(x.output, uint64(len(data)), 16)
	x.output = append(x.output, "\r\n"...)
	x.output = append(x.output, data...)
	x.output = append(x.output, "\r\n"...)
}

// relayBytes sends the next n bytes of the body: after the head if that was not
// sent yet, else without a copy.
func (x *exchange) relayBytes(client io.Writer, n int) error {
	data := x.input[x.start : x.start+n]
	x.start += n
	switch {
	case n == 0:
		return nil
	case len(x.output) == 0:
		return x.write(client, data)
	default:
		x.output = append(x.output, data...)
		return x.flush(client)
	}
}

// readMore reads the next bytes. The unused bytes fit into the buffer: they are
// less than one line of a chunk.
func (x *exchange) readMore(conn io.Reader) error {
	x.resizeInput(relayBufferSize)
	n, err := conn.Read(x.input[x.end:])
	x.end += n
	if n > 0 {
		return nil
	}
	return &upstreamReadError{err}
}

// flush sends the buffered output. It releases a buffer that a long head has
// enlarged.
func (x *exchange) flush(client io.Writer) error {
	if len(x.output) == 0 {
		return nil
	}
	err := x.write(client, x.output)
	x.output = x.output[:0]
	if cap(x.output) > 2*relayBufferSize {
		x.output = nil
	}
	return err
}

func (x *exchange) write(client io.Writer, b []byte) error {
	n, err := client.Write(b)
	x.sent = x.sent || n > 0
	if err != nil {
		return fmt.Errorf("cannot relay the response to the client: %w", err)
	}
	return nil
}

func isEOF(err error) bool {
	var broken *upstreamReadError
	return errors.As(err, &broken) && errors.Is(broken.error, io.EOF)
}
