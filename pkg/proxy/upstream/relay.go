// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

const (
	// firstReadSize is the size of the first read buffer. The response of a solver
	// fits. An exchange that waits does not occupy more.
	firstReadSize = 1 << 10
	// relayBufferSize is the buffer for the parts of a body.
	relayBufferSize = 4 << 10
	// smallResponse is more than a key authorisation or a router's error page.
	smallResponse = 8 << 10
	// maxLargeResponses bounds the larger responses in memory at a time.
	maxLargeResponses = 512
)

var largeResponses atomic.Int64 //nolint:gochecknoglobals // a bound for this process

// Relay converts the bytes of one response into the response for the client, which gets it
// when it is complete. It does no I/O: its caller reads into Space. The zero value is ready
// for a response.
type Relay struct {
	input      []byte // reads go into its whole length
	start, end int    // the part of input that was read and not used yet
	received   bool   // a byte of the response arrived
	kept       bool   // a connection of [Client] that was kept carried it
	response   response
	interim    int // responses before the final one

	begun  bool        // begin was called
	shown  findings.ID // the cause that the response shows
	body   framing
	left   int64 // remaining bytes: of a body by length, or until it is too large
	chunks chunkReader
	done   bool // the response is complete

	output     []byte // the response for the client
	headLength int    // of output
	large      bool   // largeResponses counts it
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
	if x.large {
		largeResponses.Add(-1)
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

// HasReceived reports whether a byte of the response arrived.
func (x *Relay) HasReceived() bool { return x.received }

// parseHead reports whether the head of the final response is complete.
func (x *Relay) parseHead() (complete bool, err error) {
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

// begin starts to convert a response with a complete head. follow means that it is a redirect
// to follow: no client gets it. redirected means that another one was followed.
func (x *Relay) begin(r *Request, settings *activeSettings, redirected bool) (follow bool, err error) {
	if x.body, err = x.response.bodyFraming(r.IsHead); err != nil {
		return false, err
	}
	if x.shown, follow = x.response.classify(r, settings, redirected); follow {
		return true, nil
	}
	x.begun = true
	x.output = x.response.appendHead(x.output)
	x.headLength = len(x.output)
	x.response.buf = nil // it may be larger than the relay needs
	switch x.body {
	case byLength:
		x.left = x.response.bodyLength
	case untilClose:
		x.left = maxBody
	default:
	}
	return false, nil
}

// advance converts the received bytes of the body.
func (x *Relay) advance() error {
	switch {
	case x.done:
		return nil
	case x.body == byChunks:
		return x.advanceChunks()
	}
	n := int(min(x.left, int64(x.end-x.start)))
	data := x.input[x.start : x.start+n]
	x.start += n
	x.left -= int64(n)
	if x.body == untilClose && x.start < x.end {
		return ErrTooLarge
	}
	x.done = x.left == 0 && x.body != untilClose
	return x.appendBody(data)
}

func (x *Relay) advanceChunks() error {
	for {
		used, data, err := x.chunks.next(x.input[x.start:x.end])
		if err == nil {
			err = x.appendBody(data)
		}
		if err != nil {
			return err
		}
		x.start += used
		if x.chunks.state == chunksDone {
			x.complete()
			return nil
		}
		if used == 0 || x.start == x.end {
			return nil
		}
	}
}

func (x *Relay) appendBody(data []byte) error {
	if !x.large && len(x.output)+len(data) > smallResponse {
		if largeResponses.Add(1) > maxLargeResponses {
			largeResponses.Add(-1)
			return syscall.ENOBUFS
		}
		x.large = true
	}
	x.output = append(x.output, data...)
	return nil
}

// complete ends a body whose length was not known before.
func (x *Relay) complete() {
	x.done = true
	field := fmt.Appendf(nil, "Content-Length: %d\r\n", len(x.output)-x.headLength)
	x.output = slices.Insert(x.output, x.headLength-len("\r\n"), field...)
}

// End reports that the upstream closed the connection. It returns an error if the response
// is incomplete.
func (x *Relay) End() error {
	if !x.begun || x.body != untilClose {
		return io.EOF
	}
	x.complete()
	return nil
}

// Output returns the complete response for the client, until Reset.
func (x *Relay) Output() []byte { return x.output }

// Status returns the status of the response.
func (x *Relay) Status() int { return x.response.status }

// WasKept reports whether the response to Exchange arrived on a kept connection.
func (x *Relay) WasKept() bool { return x.kept }

// Reusable reports whether the connection can take another request: the response is
// complete, and neither side closes.
func (x *Relay) Reusable() bool {
	return x.done && x.body != untilClose && x.start == x.end && x.response.minor > 0 && !x.response.connectionClose
}
