// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// viaProxy asks the ingress for one page by the gate's own means: what it meets is what
// challenges meet, and in the same words.
func viaProxy(ctx context.Context, q *prober.FetchRequest) *prober.FetchResult {
	f := &prober.FetchResult{UpstreamAddr: cause.WithoutZone(q.Addr)}
	begin := time.Now()
	defer func() { f.Total = time.Since(begin) }()
	request, err := proxyRequest(ctx, q)
	if err != nil {
		setCause(f, &upstream.Error{Cause: upstream.MalformedAnswer, Err: err})
		return f
	}
	client := upstream.New()
	defer client.Close()
	client.Update(proxySettings(q))
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) { // else the request's own deadline says it
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
		if found.Cause.IsForwarded() {
			f.ResponseCause, f.Cause = f.Cause, ""
		}
	}
	return f
}

func proxySettings(q *prober.FetchRequest) upstream.Settings {
	s := upstream.Settings{Upstream: q.ViaProxy.Upstream}
	if q.ViaProxy.CAs != nil {
		s.TrustedCAs = upstream.NewTrustedCAs(q.ViaProxy.CAs.Roots)
	}
	if q.ViaProxy.Egress != nil {
		s.Egress = *q.ViaProxy.Egress
	}
	return s
}

// proxyRequest is what the gate makes of a client's request.
func proxyRequest(ctx context.Context, q *prober.FetchRequest) (*upstream.Request, error) {
	var asked reqhead.Request
	text := []byte(requestText(q))
	if _, fault := asked.Parse(text); fault != reqhead.None {
		return nil, cause.Details{Reason: cause.InvalidRequest}
	}
	deadline, _ := ctx.Deadline()
	return &upstream.Request{
		Deadline: deadline,
		VIP:      q.ViaProxy.VIP,
		Client:   q.ViaProxy.Client,
		Head:     asked.Append(nil, q.ViaProxy.Client.Addr(), q.ViaProxy.VIP.Addr()),
		Host:     string(asked.Hostname()),
		Target:   asked.Target(),
	}, nil
}

// responseRecorder is an answer as a client gets it. Package upstream bounds it.
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

// writeTo writes the answer down, be it a part of one.
func (g *responseRecorder) writeTo(f *prober.FetchResult) {
	if g.text.Len() == 0 {
		return
	}
	f.FirstByte = g.firstByte
	answer, err := http.ReadResponse(bufio.NewReader(&g.text), nil)
	if err != nil {
		return // a part of it, of which the exchange has said why
	}
	defer answer.Body.Close()
	_ = recordResponse(f, answer) // the same
	f.Via = ""                    // the last is our own
}
