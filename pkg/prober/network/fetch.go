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
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// headBytes bounds the head of an answer.
const headBytes = 64 << 10

// fetch asks for one page. What goes wrong is a part of the answer.
func fetch(ctx context.Context, q *prober.FetchQuestion) *prober.Fetch {
	f := &prober.Fetch{}
	begin := time.Now()
	defer func() { f.Total = time.Since(begin) }()
	dialer := &net.Dialer{Timeout: q.Connect, KeepAlive: -1}
	conn, err := dialer.DialContext(ctx, "tcp", q.Addr.String())
	if err != nil {
		fail(f, upstream.DialError(q.Addr, err))
		return f
	}
	defer conn.Close()
	f.Connected = time.Since(begin)
	if deadline, bounded := ctx.Deadline(); bounded {
		_ = conn.SetDeadline(deadline)
	}
	if err := exchange(conn, q, f, begin); err != nil {
		fail(f, diagnose(q, err, f.FirstByte > 0))
	}
	return f
}

func fail(f *prober.Fetch, e *upstream.Error) {
	f.Cause, f.Why = string(e.Cause), upstream.Explain(e.Err)
}

// exchange writes the request and reads the answer into f.
func exchange(conn net.Conn, q *prober.FetchQuestion, f *prober.Fetch, begin time.Time) error {
	if q.Secure {
		// Only what the answer says is wanted, and nothing of it is trusted.
		conn = tls.Client(conn, &tls.Config{ServerName: q.Host, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // see above
	}
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
	if err != nil {
		return malformed(err)
	}
	defer answer.Body.Close()
	bounded.N = prober.MaxLength + headBytes
	return note(f, answer)
}

// requestText is how Let's Encrypt asks (boulder, va/http.go).
func requestText(q *prober.FetchQuestion) string {
	return "GET " + q.Path + " HTTP/1.1\r\nHost: " + q.Host + "\r\nUser-Agent: " + q.Agent +
		"\r\nAccept: */*\r\nConnection: close\r\n\r\n"
}

// note writes an answer down, and how its body begins.
func note(f *prober.Fetch, answer *http.Response) error {
	f.Status, f.Server, f.Via = answer.StatusCode, answer.Header.Get("Server"), answer.Header.Get("Via")
	f.Location, f.ContentType = answer.Header.Get("Location"), answer.Header.Get("Content-Type")
	f.ProxyStatus = answer.Header.Get("Proxy-Status")
	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		f.Date = date
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, prober.MaxLength+1))
	f.Length, f.Body = min(len(body), prober.MaxLength), body[:min(len(body), prober.MaxBody)]
	if len(body) > prober.MaxLength {
		return upstream.ErrTooLarge
	}
	return err
}

// errMalformed is what cannot be read as an answer, rather than a connection that
// ended.
type errMalformed struct{ error }

func malformed(err error) error {
	var timeout net.Error
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.As(err, &timeout) {
		return err
	}
	return errMalformed{err}
}

func diagnose(q *prober.FetchQuestion, err error, got bool) *upstream.Error {
	var bad errMalformed
	if errors.As(err, &bad) {
		return &upstream.Error{Cause: upstream.MalformedAnswer, Addr: q.Addr, Err: cause.Why{Reason: cause.Malformed}}
	}
	return upstream.ExchangeError(q.Addr, err, got)
}
