// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// queryEndpoint asks one URL once, through a proxy. A redirect is an answer, and is not
// followed; no body is read.
func queryEndpoint(ctx context.Context, q *prober.EndpointRequest) (*prober.EndpointResult, error) {
	target, err := url.Parse(q.URL)
	if err != nil {
		return nil, cause.Details{Reason: cause.InvalidRequest}
	}
	t := &prober.EndpointResult{}
	begin := time.Now()
	conn, err := dialFirst(ctx, q.Addrs, t)
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
	case t.ProxyStatus == 0: // else the error is the proxy's reason phrase, which may be anything
		t.Details = errorDetails(err)
	}
	return t, nil
}

// transportFor leads one request over conn. Denied gets the status with which the
// proxy does not connect, from a goroutine that may outlive the request.
func transportFor(q *prober.EndpointRequest, conn net.Conn, denied *atomic.Int32) (*http.Transport, error) {
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
		return nil, cause.Details{Reason: cause.InvalidProxyURL} // what the parser says has it
	}
	transport.Proxy = http.ProxyURL(proxy)
	return transport, nil
}

// dialFirst connects to the first address that takes the connection, whatever is asked
// for: names were resolved before. The transport would dial without ctx's deadline
// (dialConnFor of net/http), so that one silent address kept the others from being
// asked. It writes down whom it tries.
func dialFirst(ctx context.Context, addrs []netip.AddrPort, t *prober.EndpointResult) (conn net.Conn, err error) {
	err = cause.Details{Reason: cause.NoAddress}
	for i, addr := range addrs {
		t.LastAddr = cause.WithoutZone(addr)
		if conn, err = dialWithShare(ctx, addr, len(addrs)-i); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// dialWithShare leaves time for the addresses after it.
func dialWithShare(ctx context.Context, addr netip.AddrPort, left int) (net.Conn, error) {
	if end, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(left))
		defer cancel()
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr.String())
}

// dialOnce gives a transport the connection that there is, once.
func dialOnce(conn net.Conn) func(context.Context, string, string) (net.Conn, error) {
	var taken atomic.Bool
	return func(context.Context, string, string) (net.Conn, error) {
		if taken.Swap(true) {
			return nil, net.ErrClosed
		}
		return conn, nil
	}
}

// errorDetails is why there was no answer. What net/http itself says quotes the network, and
// may hold a URL with credentials: of its texts none is handed over.
func errorDetails(err error) cause.Details {
	if about, is := upstream.ExplainCertificate(nil, err, time.Now()); is {
		return about
	}
	switch said := upstream.Explain(err); {
	case said.Reason != cause.Unknown:
		return said
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return cause.Details{Reason: cause.PlainHTTP}
	default:
		return cause.Details{Reason: cause.Malformed}
	}
}
