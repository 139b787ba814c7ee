// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// errNoTime is a budget that was used up before a connection was tried.
var errNoTime = fmt.Errorf("%w: %w", cause.Why{Reason: cause.NoTime}, os.ErrDeadlineExceeded)

// readError marks what the upstream did wrong while its answer was relayed, to
// tell it from what the client did.
type readError struct{ error }

// ask sends the request and reads until the head of the final answer is
// complete.
func (x *exchange) ask(conn stream, a attempt, request []byte) error {
	if err := conn.SetDeadline(a.first); err != nil {
		return err
	}
	x.room(max(firstAnswer, len(x.in)))
	n, err := conn.Ask(request, x.in[x.end:])
	if err := x.came(conn, a, n, err); err != nil {
		return err
	}
	for interim := 0; ; {
		n, err := x.answer.parse(x.in[x.start:x.end])
		switch {
		case err != nil:
			return err
		case n == 0:
			if err := x.readHead(conn, a); err != nil {
				return err
			}
		case !x.answer.interim():
			x.start += n
			return nil
		case x.answer.status == 101:
			return malformed(cause.Switches)
		default:
			if interim++; interim > maxInterim {
				return malformed(cause.Interim)
			}
			x.start += n
			x.answer = answer{}
		}
	}
}

// readHead reads more of the head. The first byte ends the wait that other
// addresses have a share in.
func (x *exchange) readHead(conn stream, a attempt) error {
	switch unused := x.end - x.start; {
	case unused == maxAnswerHead:
		return malformed(cause.HeadTooLong)
	case x.end < len(x.in):
	default:
		// The parser counts from the head's beginning, so that the head may move.
		size := max(firstAnswer, len(x.in))
		if unused == size {
			size = min(2*size, maxAnswerHead)
		}
		x.room(size)
	}
	n, err := conn.Read(x.in[x.end:])
	return x.came(conn, a, n, err)
}

// came takes note of what was read.
func (x *exchange) came(conn stream, a attempt, n int, err error) error {
	if n > 0 && !x.got {
		x.got = true
		if a.first.Before(a.deadline) {
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

// relay sends the answer whose head is in x.answer to the client. What has come
// is sent before more is waited for, but for a head whose body has not begun:
// until it has, another answer can still be given.
func (x *exchange) relay(conn io.Reader, client io.Writer, body framing, http10 bool) error {
	rechunk := body == byChunks && !http10
	x.out = x.answer.appendHead(x.out, rechunk)
	x.answer.buf = nil // it may be larger than what is needed from here on
	switch body {
	case byLength:
		return x.relayLength(conn, client)
	case byChunks:
		return x.relayChunks(conn, client, rechunk)
	case untilClose:
		return x.relayRest(conn, client)
	default:
		return x.flush(client)
	}
}

func (x *exchange) relayLength(conn io.Reader, client io.Writer) error {
	for left := x.answer.length; ; {
		n := int(min(left, int64(x.end-x.start)))
		if err := x.pass(client, n); err != nil {
			return err
		}
		if left -= int64(n); left == 0 {
			return x.flush(client)
		}
		if err := x.more(conn); err != nil {
			return err
		}
	}
}

func (x *exchange) relayRest(conn io.Reader, client io.Writer) error {
	for left := maxBody; ; {
		n := x.end - x.start
		if left -= n; left < 0 {
			return &readError{errTooLarge}
		}
		if err := x.pass(client, n); err != nil {
			return err
		}
		switch err := x.more(conn); {
		case err == nil:
		case isEOF(err):
			return x.flush(client)
		default:
			return err
		}
	}
}

// relayChunks decodes the body and, for a client that reads chunks, wraps it
// again: what goes out is framed by what was understood of what came in.
func (x *exchange) relayChunks(conn io.Reader, client io.Writer, rechunk bool) error {
	var c chunks
	begun := false
	for {
		used, data, err := c.next(x.in[x.start:x.end])
		if err != nil {
			return &readError{err}
		}
		x.start += used
		if len(data) > 0 {
			begun = true
			x.appendBody(data, rechunk)
		}
		if c.done() {
			if rechunk {
				x.out = append(x.out, "0\r\n\r\n"...)
			}
			return x.flush(client)
		}
		if used > 0 && x.start < x.end {
			continue
		}
		if begun {
			if err := x.flush(client); err != nil {
				return err
			}
		}
		if err := x.more(conn); err != nil {
			return err
		}
	}
}

func (x *exchange) appendBody(data []byte, rechunk bool) {
	if !rechunk {
		x.out = append(x.out, data...)
		return
	}
	x.out = strconv.AppendUint(x.out, uint64(len(data)), 16)
	x.out = append(x.out, "\r\n"...)
	x.out = append(x.out, data...)
	x.out = append(x.out, "\r\n"...)
}

// pass sends the next n bytes of the body: behind the head if that was not sent
// yet, else from where they lie.
func (x *exchange) pass(client io.Writer, n int) error {
	data := x.in[x.start : x.start+n]
	x.start += n
	switch {
	case n == 0:
		return nil
	case len(x.out) == 0:
		return x.write(client, data)
	default:
		x.out = append(x.out, data...)
		return x.flush(client)
	}
}

// more reads what comes next. What is left unread fits: of a body, it is less
// than a line of its chunks.
func (x *exchange) more(conn io.Reader) error {
	x.room(piece)
	n, err := conn.Read(x.in[x.end:])
	x.end += n
	if n > 0 {
		return nil
	}
	return &readError{err}
}

// flush sends what is ready. A buffer that a long head has made large is given
// back.
func (x *exchange) flush(client io.Writer) error {
	if len(x.out) == 0 {
		return nil
	}
	err := x.write(client, x.out)
	x.out = x.out[:0]
	if cap(x.out) > 2*piece {
		x.out = nil
	}
	return err
}

func (x *exchange) write(client io.Writer, b []byte) error {
	n, err := client.Write(b)
	x.sent = x.sent || n > 0
	if err != nil {
		return fmt.Errorf("relay the answer to the client: %w", err)
	}
	return nil
}

func isEOF(err error) bool {
	var broken *readError
	return errors.As(err, &broken) && errors.Is(broken.error, io.EOF)
}
