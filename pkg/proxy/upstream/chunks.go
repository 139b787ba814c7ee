// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"strconv"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

const (
	maxChunkLine     = 256                 // a chunk size and its extensions
	maxChunkOverhead = relayBufferSize / 2 // extensions and trailers of one response; one line must fit into the buffer
	// maxChunks bounds the work for one response, besides the last, empty chunk. The event loop converts
	// all chunks that have arrived before it serves another connection. Servers write a page in a few chunks.
	maxChunks = 4096
)

// chunkReader reads a chunked body (RFC 9112 section 7.1). It checks and drops
// extensions and trailers. The zero value is at the first chunk.
type chunkReader struct {
	state     chunkState
	remaining int64 // of the current chunk
	total     int64 // of all chunks so far, including the current one
	overhead  int   // bytes of extensions and trailers
	chunks    int   // so far
}

type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkData
	chunkEnd
	chunkTrailer
	chunksDone
)

// next reads from b. It returns how many bytes it used, and the bytes of the body
// among them. If it used none, more bytes are needed or the body is complete.
func (c *chunkReader) next(b []byte) (used int, data []byte, err error) {
	switch c.state {
	case chunkData:
		n := int(min(c.remaining, int64(len(b))))
		if c.remaining -= int64(n); c.remaining == 0 {
			c.state = chunkEnd
		}
		return n, b[:n], nil
	case chunksDone:
		return 0, nil, nil
	default:
	}
	line, used, err := c.readLine(b)
	switch {
	case used == 0 || err != nil:
		return 0, nil, err
	case c.state == chunkTrailer:
		return used, nil, c.parseTrailer(line)
	case c.state == chunkSize:
		return used, nil, c.parseSize(line)
	default: // the empty rest of the line after the data
		c.state = chunkSize
		return used, nil, nil
	}
}

func (c *chunkReader) readLine(b []byte) (line []byte, used int, err error) {
	limit := maxChunkLine
	switch c.state {
	case chunkTrailer:
		limit = maxChunkOverhead
	case chunkEnd:
		limit = len("\r")
	default:
	}
	lf := bytes.IndexByte(b, '\n')
	switch {
	case lf > limit, lf < 0 && len(b) > limit, lf == 0, lf > 0 && b[lf-1] != '\r':
		return nil, 0, Malformed(cause.Chunk)
	case lf < 0:
		return nil, 0, nil
	default:
		return b[:lf-1], lf + 1, nil
	}
}

func (c *chunkReader) parseSize(line []byte) error {
	digits, extension, extended := bytes.Cut(line, []byte{';'})
	size, err := strconv.ParseUint(string(digits), 16, 63)
	if err != nil || len(digits) > 15 {
		return Malformed(cause.Chunk)
	}
	c.remaining = int64(size)
	// The announced size counts, so that no byte of an excess chunk is relayed.
	c.chunks++
	if c.total += c.remaining; c.total > maxBody || c.remaining > 0 && c.chunks > maxChunks {
		return ErrTooLarge
	}
	if extended {
		if c.overhead += len(extension) + 1; c.overhead > maxChunkOverhead || !httpfield.IsText(extension) {
			return Malformed(cause.Chunk)
		}
	}
	c.state = chunkData
	if c.remaining == 0 {
		c.state = chunkTrailer
	}
	return nil
}

func (c *chunkReader) parseTrailer(line []byte) error {
	if len(line) == 0 {
		c.state = chunksDone
		return nil
	}
	_, _, problem := httpfield.Split(line)
	if c.overhead += len(line); c.overhead > maxChunkOverhead || problem != httpfield.NoFault {
		return Malformed(cause.Chunk)
	}
	return nil
}
