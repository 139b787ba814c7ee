// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// headBytes bounds the head of a response.
const headBytes = 64 << 10

// fetchPage requests one page. Failures are part of the result.
func fetchPage(ctx context.Context, q *protocol.FetchRequest) *protocol.FetchResult {
	f := &protocol.FetchResult{}
	begin := time.Now()
	defer func() { f.Total = time.Since(begin) }()
	dialer := &net.Dialer{Timeout: q.ConnectTimeout, KeepAlive: -1}
	conn, err := dialer.DialContext(ctx, "tcp", q.Addr.String())
	if err != nil {
		setCause(f, upstream.DialError(q.Addr, err))
		return f
	}
	defer conn.Close()
	f.Connected = time.Since(begin)
	if deadline, bounded := ctx.Deadline(); bounded {
		_ = conn.SetDeadline(deadline)
	}
	if err := exchange(conn, q, f, begin); err != nil {
		setCause(f, upstream.ExchangeError(q.Addr, err, f.FirstByte > 0))
	}
	return f
}

func setCause(f *protocol.FetchResult, e *upstream.Error) {
	f.Cause, f.Details = string(e.Cause), upstream.Explain(e.Err)
}

// exchange writes the request and reads the answer into f.
func exchange(conn net.Conn, q *protocol.FetchRequest, f *protocol.FetchResult, begin time.Time) error {
	if _, err := io.WriteString(conn, requestText(q)); err != nil {
		return err
	}
	bounded := &io.LimitedReader{R: conn, N: headBytes}
	buffered := bufio.NewReader(bounded)
	if _, err := buffered.Peek(1); err != nil {
		return err
	}
	f.FirstByte = time.Since(begin)
	answer, err := http.ReadResponse(buffered, nil)
	var timeout net.Error
	switch {
	case err == nil:
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.As(err, &timeout):
		return err
	default:
		return upstream.Malformed(cause.Malformed)
	}
	defer answer.Body.Close()
	bounded.N = protocol.MaxLength + headBytes
	return recordResponse(f, answer)
}

// unverifiedTLS returns a TLS connection on which anything is read and nothing is trusted. Without
// a name, or with an address, no SNI is sent.
func unverifiedTLS(conn net.Conn, name string) *tls.Conn {
	c := &tls.Config{ServerName: name, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // see above
	return tls.Client(conn, c)
}

// requestText returns a request as Let's Encrypt sends it (boulder, va/http.go).
func requestText(q *protocol.FetchRequest) string {
	return "GET " + q.Path + " HTTP/1.1\r\nHost: " + q.Host + "\r\nUser-Agent: " + q.UserAgent +
		"\r\nAccept: */*\r\nConnection: close\r\n\r\n"
}

func recordResponse(f *protocol.FetchResult, answer *http.Response) error {
	f.Status, f.Server, f.Via = answer.StatusCode, answer.Header.Get("Server"), answer.Header.Get("Via")
	f.Location, f.ContentType = answer.Header.Get("Location"), answer.Header.Get("Content-Type")
	f.ProxyStatus = answer.Header.Get("Proxy-Status")
	body, err := io.ReadAll(io.LimitReader(answer.Body, protocol.MaxLength+1))
	f.Length, f.Body = min(len(body), protocol.MaxLength), body[:min(len(body), protocol.MaxBody)]
	if len(body) > protocol.MaxLength {
		return upstream.ErrTooLarge
	}
	return err
}
