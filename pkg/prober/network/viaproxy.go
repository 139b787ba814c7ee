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

// viaProxy requests one page from the ingress as the proxy does, with the proxy's own code:
// failures get the same causes as failures of challenges.
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
	var response upstream.Relay
	defer response.Reset()
	at, failure := client.Exchange(context.WithoutCancel(ctx), request, &response)
	if at.IsValid() {
		f.UpstreamAddr = cause.WithoutZone(at)
	}
	if failure != nil {
		f.ViaEgressProxy = failure.EgressProxy != ""
		setCause(f, failure)
		if !failure.Forwarded() {
			return f
		}
		f.ResponseCause, f.Cause = f.Cause, ""
	}
	f.FirstByte = time.Since(begin)
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(response.Output())), nil)
	if err != nil {
		return f // it is complete, and package upstream checked it
	}
	defer answer.Body.Close()
	_ = recordResponse(f, answer) // as above
	f.Via = ""                    // the last one is the proxy's own
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
