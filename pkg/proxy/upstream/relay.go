// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"io"
	"net/netip"
	"strconv"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

const (
	// firstReadSize is the size of the first read buffer. The response of a solver
	// fits. An exchange that waits does not occupy more.
	firstReadSize = 1 << 10
	// relayBufferSize is the buffer in which a body is relayed.
	relayBufferSize = 4 << 10
)

// Relay converts the bytes of one response into the bytes for the client. It does no I/O:
// its caller reads into Space, and writes Output. The zero value is ready for a response.
type Relay struct {
	input      []byte // its whole length can be read into
	start, end int    // the part of input that was read and not used yet
	received   bool   // a byte of the response has arrived
	response   response
	interim    int // responses before the final one

	body    framing
	left    int64 // of a body by length, or until one is too large
	chunks  chunkReader
	rechunk bool
	begun   bool // begin was called
	started bool // the body has begun
	done    bool // the response is complete

	output []byte // the next bytes for the client
	sent   bool   // something was written to the client
}

// Reset prepares for another exchange, and releases large buffers.
func (x *Relay) Reset() {
	in, out := x.input, x.output[:0]
	if len(in) > firstReadSize {
		in = nil
	}
	if cap(out) > 2*firstReadSize {
		out = nil
	}
	*x = Relay{input: in, output: out}
}

// Space returns where to read the next bytes of the response.
func (x *Relay) Space() []byte {
	unused := x.input[x.start:x.end]
	size := relayBufferSize
	if !x.begun {
		if size = max(firstReadSize, len(x.input)); len(unused) == size {
			size = min(2*size, maxResponseHead)
		}
	}
	if x.begun || x.end == len(x.input) {
		// The parsers count from the beginning of a head or line, so that it may move.
		if len(x.input) != size {
			x.input = make([]byte, size)
		}
		x.start, x.end = 0, copy(x.input, unused)
	}
	return x.input[x.end:]
}

// Received adds n bytes, which were read into Space.
func (x *Relay) Received(n int) {
	x.received = x.received || n > 0
	x.end += n
}

// HasReceived reports whether a byte of the response has arrived.
func (x *Relay) HasReceived() bool { return x.received }

// ParseHead reports whether the head of the final response is complete.
func (x *Relay) ParseHead() (complete bool, err error) {
	for {
		n, err := x.response.parse(x.input[x.start:x.end])
		switch {
		case err != nil:
			return false, err
		case n == 0 && x.end-x.start == maxResponseHead:
			return false, Malformed(cause.HeadTooLong)
		case n == 0:
			return false, nil
		case x.response.status >= 200:
			x.start += n
			return true, nil
		case x.response.status == 101:
			return false, Malformed(cause.Interim)
		}
		if x.interim++; x.interim > maxInterim {
			return false, Malformed(cause.Interim)
		}
		x.start += n
		x.response = response{}
	}
}

// begin starts to relay a response with a complete head to the client. It returns the cause
// that the response shows. follow means that it is a redirect to follow, after the given
// number of others: nothing is relayed.
func (x *Relay) begin(r *Request, settings *activeSettings, redirects int) (shown findings.ID, follow bool, err error) {
	if x.body, err = x.response.bodyFraming(r.IsHead); err != nil {
		return "", false, err
	}
	if shown, follow = x.response.classify(r, settings, redirects); follow {
		x.discard()
		return "", true, nil
	}
	x.begun, x.rechunk = true, x.body == byChunks && !r.HTTP10
	x.output = x.response.appendHead(x.output, x.rechunk)
	x.response.buf = nil // it may be larger than the relay needs
	if x.left = maxBody; x.body == byLength {
		x.left = x.response.bodyLength
	}
	return shown, false, nil
}

// discard drops a response that no client gets. It does not wait for the body: if the body
// did not arrive with the head, the connection is not reused.
func (x *Relay) discard() {
	x.left, x.done = 0, x.body == noBody
	if x.body == byLength && x.response.bodyLength <= int64(x.end-x.start) {
		x.start += int(x.response.bodyLength)
		x.done = true
	}
}

// Advance converts the received bytes of the body.
func (x *Relay) Advance() error {
	if x.done {
		return nil
	}
	switch x.body {
	case byChunks:
		return x.advanceChunks()
	case untilClose:
		if int64(x.end-x.start) > x.left {
			return ErrTooLarge
		}
	case noBody:
		x.left = 0
	default:
	}
	n := int(min(x.left, int64(x.end-x.start)))
	x.appendBody(x.input[x.start:x.start+n], false)
	x.start += n
	x.left -= int64(n)
	x.done = x.left == 0 && x.body != untilClose
	return nil
}

// advanceChunks decodes the body. For a client that supports chunks, it encodes the body
// again. The framing that goes out is therefore the one that was understood.
func (x *Relay) advanceChunks() error {
	for {
		used, data, err := x.chunks.next(x.input[x.start:x.end])
		if err != nil {
			return err
		}
		x.start += used
		x.appendBody(data, x.rechunk)
		if x.chunks.state == chunksDone {
			if x.done = true; x.rechunk {
				x.output = append(x.output, "0\r\n\r\n"...)
			}
			return nil
		}
		if used == 0 || x.start == x.end {
			return nil
		}
	}
}

func (x *Relay) appendBody(data []byte, chunk bool) {
	if len(data) == 0 {
		return
	}
	x.started = true
	if !chunk {
		x.output = append(x.output, data...)
		return
	}
	x.output = strconv.AppendUint(x.output, uint64(len(data)), 16)
	x.output = append(x.output, "\r\n"...)
	x.output = append(x.output, data...)
	x.output = append(x.output, "\r\n"...)
}

// End reports that the upstream has closed the connection.
func (x *Relay) End() error {
	if x.done = x.done || x.begun && x.body == untilClose; x.done {
		return nil
	}
	return io.EOF
}

// Output returns the next bytes for the client. The head waits for the first byte of the
// body: until then another response can still be given.
func (x *Relay) Output() []byte {
	if !x.started && !x.done {
		return nil
	}
	return x.output
}

// Sent drops the output, of which n bytes were written to the client. It releases a
// buffer that a long head has enlarged.
func (x *Relay) Sent(n int) {
	x.sent = x.sent || n > 0
	x.output = x.output[:0]
	if cap(x.output) > 2*relayBufferSize {
		x.output = nil
	}
}

// Done reports whether the response is complete. The output may not be sent yet.
func (x *Relay) Done() bool { return x.done }

// Reusable reports whether the connection can take another request: the response is
// complete, and neither side closes.
func (x *Relay) Reusable() bool {
	return x.done && x.body != untilClose && x.start == x.end && x.response.minor > 0 && !x.response.connectionClose
}

// Status returns the status that was sent to the client, or 0.
func (x *Relay) Status() int {
	if !x.sent {
		return 0
	}
	return x.response.status
}

// Failure classifies an error of the upstream during this exchange.
func (x *Relay) Failure(addr netip.AddrPort, err error) *Error {
	e := ExchangeError(addr, err, x.received)
	if x.sent {
		e.ClientStatus = 0 // the client has a part of the response
	}
	return e
}
