// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// scriptedStream is a connection whose peer has sent everything.
type scriptedStream struct {
	net.Conn // unused

	sent io.Reader
}

func (s scriptedStream) Read(p []byte) (int, error)    { return s.sent.Read(p) }
func (s scriptedStream) Write(p []byte) (int, error)   { return len(p), nil }
func (s scriptedStream) SetDeadline(_ time.Time) error { return nil }

// relayResponse runs the response through all code between the two sockets.
func relayResponse(response io.Reader, toHead bool) (x *Relay, err error) {
	x = new(Relay)
	w := scriptedStream{sent: response}
	if err = x.sendAndReadHead(w, &attempt{}, nil); err == nil {
		_, err = x.begin(&Request{IsHead: toHead}, &activeSettings{}, false)
	}
	if err == nil {
		err = x.readBody(w)
	}
	return x, err
}

// parsedResponse is a response as net/http reads it.
type parsedResponse struct {
	status     int
	close      bool
	body, rest []byte // rest is the bytes after it
}

// readReference reads the final response with net/http.
func readReference(text []byte, method string) (s parsedResponse, err error) {
	r := bufio.NewReader(bytes.NewReader(text))
	for s.status < 200 {
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return s, err
		}
		s.status, s.close = resp.StatusCode, resp.Close
		s.body, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return s, err
		}
	}
	s.rest, _ = io.ReadAll(r)
	return s, nil
}

// byteReader returns one byte at a time.
type byteReader struct{ *bytes.Reader }

func (d byteReader) Read(p []byte) (int, error) { return d.Reader.Read(p[:min(len(p), 1)]) }

// FuzzResponse compares with net/http. A response that is taken for complete is
// complete there too, with the same status and body. The client gets exactly that,
// in whatever pieces the response arrives.
func FuzzResponse(f *testing.F) {
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ntoken.key",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\ntoken\r\n4\r\n.key\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html></html>",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 302 Found\r\nLocation: https://a/\r\nConnection: x\r\nX: " +
			"y\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 204 \r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.1 304\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n1\r\nx\r\n0\r\nContent-Length: " +
			"5\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
	} {
		f.Add([]byte(text), byte(0))
		f.Add([]byte(text), byte(1))
	}
	f.Fuzz(func(t *testing.T, text []byte, mode byte) {
		toHead := mode&1 != 0
		method := "GET"
		if toHead {
			method = "HEAD"
		}
		x, err := relayResponse(bytes.NewReader(text), toHead)
		slow, slowErr := relayResponse(byteReader{bytes.NewReader(text)}, toHead)
		defer x.Reset()
		defer slow.Reset()
		if (err == nil) != (slowErr == nil) {
			t.Fatalf("at once: %v; byte by byte: %v", err, slowErr)
		}
		if err != nil {
			return
		}
		want, err := readReference(text, method)
		if err != nil {
			t.Fatalf("net/http refuses %q: %v", text, err)
		}
		if want.status != x.response.status {
			t.Fatalf("net/http sees status %d, we %d", want.status, x.response.status)
		}
		if x.body != untilClose && x.end < len(x.input) && !bytes.Equal(want.rest, x.input[x.start:x.end]) {
			t.Fatalf("net/http sees %q after the answer, we %q", want.rest, x.input[x.start:x.end])
		}
		for name, text := range map[string][]byte{"at once": x.Output(), "byte by byte": slow.Output()} {
			got, err := readReference(text, method)
			if err != nil {
				t.Fatalf("%s: net/http refuses what the client gets, %q: %v", name, text, err)
			}
			if len(got.body) > maxBody {
				t.Fatalf("%s: the client gets a body of %d bytes", name, len(got.body))
			}
			if got.status != want.status || !bytes.Equal(got.body, want.body) || len(got.rest) > 0 || !got.close {
				t.Fatalf("%s: the client gets %d %q %q, close %v; the upstream sent %d %q", name, got.status, got.body, got.rest,
					got.close, want.status, want.body)
			}
		}
	})
}
