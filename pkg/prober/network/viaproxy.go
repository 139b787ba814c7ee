// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// viaProxy requests one page from the ingress as the proxy does, with the proxy's own
// code: failures have the causes that challenges have.
func viaProxy(ctx context.Context, q *protocol.FetchRequest) *protocol.FetchResult {
	f := &protocol.FetchResult{UpstreamAddr: cause.WithoutZone(q.Addr)}
	begin := time.Now()
	defer func() { f.Total = time.Since(begin) }()
	request, err := proxyRequest(ctx, q)
	if err != nil {
		setCause(f, &upstream.Error{Cause: findings.ResponseMalformed, Err: err})
		return f
	}
	client := upstream.New()
	defer client.Close()
	client.Update(proxySettings(q))
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) { // at the deadline, the exchange reports it
			client.Close()
		}
	})()
	answer := responseRecorder{begin: begin}
	_, at, err := client.Exchange(request, &answer)
	if at.IsValid() {
		f.UpstreamAddr = cause.WithoutZone(at)
	}
	answer.writeTo(f)
	var found *upstream.Error
	if errors.As(err, &found) {
		f.ViaEgressProxy = found.EgressProxy != ""
		setCause(f, found)
		if found.Forwarded() {
			f.ResponseCause, f.Cause = f.Cause, ""
		}
	}
	return f
}

func proxySettings(q *protocol.FetchRequest) upstream.Settings {
	s := upstream.Settings{Upstream: q.ViaProxy.Upstream}
	if q.ViaProxy.CAs != nil {
		s.TrustedCAs = upstream.NewTrustedCAs(q.ViaProxy.CAs.Roots)
	}
	if q.ViaProxy.Egress != nil {
		s.Egress = *q.ViaProxy.Egress
	}
	return s
}

// proxyRequest returns the request that the proxy makes of a client's request.
func proxyRequest(ctx context.Context, q *protocol.FetchRequest) (*upstream.Request, error) {
	var head reqhead.Request
	text := []byte(requestText(q))
	if _, fault := head.Parse(text); fault != reqhead.None {
		return nil, cause.Details{Reason: cause.InvalidRequest}
	}
	deadline, _ := ctx.Deadline()
	return &upstream.Request{
		Deadline: deadline,
		VIP:      q.ViaProxy.VIP,
		Client:   q.ViaProxy.Client,
		Head:     head.Append(nil, q.ViaProxy.Client.Addr(), q.ViaProxy.VIP.Addr()),
		Host:     string(head.Hostname()),
		Target:   head.Target(),
	}, nil
}

// responseRecorder records a response as a client receives it. Package upstream bounds it.
type responseRecorder struct {
	begin     time.Time
	firstByte time.Duration
	text      bytes.Buffer
}

func (g *responseRecorder) Write(p []byte) (int, error) {
	if g.firstByte == 0 {
		g.firstByte = time.Since(g.begin)
	}
	return g.text.Write(p)
}

// writeTo writes the response, also an incomplete one, to a result.
func (g *responseRecorder) writeTo(f *protocol.FetchResult) {
	if g.text.Len() == 0 {
		return
	}
	f.FirstByte = g.firstByte
	answer, err := http.ReadResponse(bufio.NewReader(&g.text), nil)
	if err != nil {
		return // incomplete; the exchange has reported the cause
	}
	defer answer.Body.Close()
	_ = recordResponse(f, answer) // as above
	f.Via = ""                    // the last one is the proxy's own
}
