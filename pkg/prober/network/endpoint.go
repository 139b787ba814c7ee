// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// queryEndpoint requests one URL once, usually through a proxy. A redirect is an answer
// and is not followed. The body is not read.
func queryEndpoint(ctx context.Context, q *protocol.EndpointRequest) (*protocol.EndpointResult, error) {
	target, err := url.Parse(q.URL)
	if err != nil {
		return nil, cause.Details{Reason: cause.InvalidRequest}
	}
	t := &protocol.EndpointResult{}
	begin := time.Now()
	// Names were resolved before. The transport would dial without the deadline of ctx (dialConnFor
	// of net/http), so that a silent address would take all the time.
	deadline, _ := ctx.Deadline()
	conn, last, err := upstream.DialFirst(ctx, q.Addrs, deadline)
	t.LastAddr = cause.WithoutZone(last)
	if err != nil {
		t.Details, t.Total = errorDetails(err), time.Since(begin)
		return t, nil
	}
	defer conn.Close()
	var denied atomic.Int32
	transport, err := transportFor(q, conn, &denied)
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()
	request := (&http.Request{
		Method: http.MethodGet, URL: target, Host: target.Host, Header: http.Header{"User-Agent": {"http01-proxyd"}},
	}).WithContext(ctx)
	answer, err := transport.RoundTrip(request)
	t.Total, t.ProxyStatus = time.Since(begin), int(denied.Load())
	switch {
	case err == nil:
		t.Status = answer.StatusCode
		_ = answer.Body.Close()
	case t.ProxyStatus == 0: // otherwise the error is the proxy's reason phrase, which may be any text
		t.Details = errorDetails(err)
	}
	return t, nil
}

// transportFor returns a transport for one request over conn. It stores in denied the
// status with which the proxy rejects CONNECT, from a goroutine that may outlive the request.
func transportFor(q *protocol.EndpointRequest, conn net.Conn, denied *atomic.Int32) (*http.Transport, error) {
	roots := x509.NewCertPool()
	for _, der := range q.Roots {
		if c, err := x509.ParseCertificate(der); err == nil {
			roots.AddCert(c)
		}
	}
	transport := &http.Transport{
		DialContext:            dialOnce(conn),
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: headBytes,
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
			if answer.StatusCode != http.StatusOK {
				denied.Store(int32(answer.StatusCode)) //nolint:gosec // three digits
			}
			return nil
		},
	}
	if q.Proxy == "" {
		return transport, nil
	}
	proxy, err := url.Parse(q.Proxy)
	if err != nil {
		return nil, cause.Details{Reason: cause.InvalidProxyURL} // the parser's error contains the URL
	}
	transport.Proxy = http.ProxyURL(proxy)
	return transport, nil
}

// dialOnce returns a dial function that returns conn, once.
func dialOnce(conn net.Conn) func(context.Context, string, string) (net.Conn, error) {
	var taken atomic.Bool
	return func(context.Context, string, string) (net.Conn, error) {
		if taken.Swap(true) {
			return nil, net.ErrClosed
		}
		return conn, nil
	}
}

// errorDetails returns why there was no answer. Errors of net/http quote the network and
// may contain a URL with credentials: their text is dropped.
func errorDetails(err error) cause.Details {
	if details, ok := upstream.ExplainCertificate(nil, err, time.Now()); ok {
		return details
	}
	switch details := upstream.Explain(err); {
	case details.Reason != cause.Unknown:
		return details
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return cause.Details{Reason: cause.PlainHTTP}
	default:
		return cause.Details{Reason: cause.Malformed}
	}
}
