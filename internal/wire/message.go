// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/jsonlimit"
)

const (
	// maxCommand bounds a command in bytes. The largest one contains the longest list of hosts
	// that fits into a configuration file, the certificates of the largest trusted CA bundle,
	// or the routes of an egress proxy with the CAs of the host twice and the CAs of an
	// administrator (pkg/ingress/trust: 4 MiB and 1 MiB as PEM, which is longer than base64 of
	// DER).
	maxCommand = 12 << 20
	// maxEvent bounds a message of a child process in bytes. It is larger than every
	// message that a protocol defines.
	maxEvent = 192 << 10
	// maxKeptBuffer bounds the buffer that is kept for the next message.
	maxKeptBuffer = 64 << 10
	// writeTimeout bounds the wait for a child that does not read a command.
	writeTimeout = 2 * time.Second
	// stallThreshold is the delay of a timeout that shows that this process itself did not run
	// (SIGSTOP, a paused machine, swap).
	stallThreshold = time.Second
	headerBytes    = 4 // the length of the text that follows, big-endian
)

var (
	// ErrTooLarge reports that a message exceeds the bound. Nothing of it was sent.
	ErrTooLarge = errors.New("message too large")
	// ErrPayloads reports that a message contains no payload, or several.
	ErrPayloads = errors.New("message without exactly one payload")
	// ErrInvalid reports a text that is not a message of the protocol. It quotes nothing:
	// the text of a child process is not trusted.
	ErrInvalid = errors.New("not a message of the protocol")
)

// Event is a message of a child process. Validate rejects values that no child process of this
// program sends. It checks every event before the receiver gets it.
type Event interface{ Validate() error }

// encode frames a message of at most limit bytes.
func encode(message any, limit int) ([]byte, error) {
	if n := payloads(message); n != 1 {
		return nil, fmt.Errorf("encode a message: %w: %d", ErrPayloads, n)
	}
	text, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	if len(text) > limit {
		return nil, fmt.Errorf("encode a message: %w: %d bytes", ErrTooLarge, len(text))
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, headerBytes+len(text)), uint32(len(text))), text...), nil //nolint:gosec // bounded above
}

// decode reads one message, to which into points: a struct whose pointer fields are the
// payloads by kind. Exactly one must be set, and no unknown field may occur.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text after the message")
	}
	if n := payloads(into); n != 1 {
		return fmt.Errorf("%w: %d", ErrPayloads, n)
	}
	return nil
}

// DecodeEvent decodes the text of a child process: it bounds the number of values before
// it allocates memory for them, and validates them afterwards.
func DecodeEvent(text []byte, into Event) error {
	if _, more := jsonlimit.Cut(text, maxValues); more {
		return fmt.Errorf("message of more than %d values", maxValues)
	}
	if err := decode(text, into); err != nil {
		return ErrInvalid // the decoder's error quotes the text
	}
	return into.Validate()
}

// payloads counts the payloads of a message: its pointer fields that are set.
func payloads(message any) (n int) {
	v := reflect.Indirect(reflect.ValueOf(message))
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			n++
		}
	}
	return n
}

// maxValues bounds the values of a child's message: each becomes a struct of some hundred bytes
// at most. The largest statistics of the proxy contain about 5,000 values.
const maxValues = 8192

// readText reads the text after a header. buf is reused where it is large enough.
func readText(r io.Reader, header [headerBytes]byte, limit int, buf *[]byte) ([]byte, error) {
	length := int(binary.BigEndian.Uint32(header[:]))
	if length > limit {
		return nil, fmt.Errorf("message of %d bytes, more than %d", length, limit)
	}
	if cap(*buf) < length {
		*buf = make([]byte, length)
	}
	text := (*buf)[:length]
	if length > maxKeptBuffer {
		*buf = nil
	}
	_, err := io.ReadFull(r, text)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return text, err
}
