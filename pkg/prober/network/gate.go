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
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/route"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// asGate asks the ingress for one page by the gate's own means: what it meets is what
// challenges meet, and in the same words.
func asGate(ctx context.Context, q *prober.FetchQuestion) *prober.Fetch {
	f := &prober.Fetch{At: cause.Unzoned(q.Addr)}
	begin := time.Now()
	defer func() { f.Total = time.Since(begin) }()
	request, err := gateRequest(ctx, q)
	if err != nil {
		fail(f, &upstream.Error{Cause: upstream.MalformedAnswer, Err: err})
		return f
	}
	client := upstream.New()
	defer client.Close()
	client.Update(gateSettings(q))
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) { // else the request's own deadline says it
			client.Close()
		}
	})()
	answer := gathered{begin: begin}
	_, at, err := client.Exchange(request, &answer)
	if at.IsValid() {
		f.At = cause.Unzoned(at)
	}
	answer.read(f)
	var found *upstream.Error
	if errors.As(err, &found) {
		f.Proxy = found.EgressProxy != ""
		fail(f, found)
		if found.Cause.IsForwarded() {
			f.Verdict, f.Cause = f.Cause, ""
		}
	}
	return f
}

func gateSettings(q *prober.FetchQuestion) upstream.Settings {
	var w route.Builder
	if q.Gate.Trust != nil {
		w.Trust(q.Gate.Trust)
	}
	if q.Gate.Egress != nil {
		w.Egress(q.Gate.Egress)
	}
	w.Configure(&q.Gate.Configure)
	return w.Settings()
}

// gateRequest is what the gate makes of a client's request.
func gateRequest(ctx context.Context, q *prober.FetchQuestion) (*upstream.Request, error) {
	var asked reqhead.Request
	text := []byte(requestText(q))
	if _, fault := asked.Parse(text); fault != reqhead.None {
		return nil, cause.Why{Reason: cause.BadQuestion}
	}
	deadline, _ := ctx.Deadline()
	return &upstream.Request{
		Deadline: deadline,
		VIP:      q.Gate.VIP,
		Client:   q.Gate.Client,
		Head:     asked.Append(nil, q.Gate.Client.Addr(), q.Gate.VIP.Addr()),
		Host:     string(asked.Hostname()),
		Target:   asked.Target(),
	}, nil
}

// gathered is an answer as a client gets it. Package upstream bounds it.
type gathered struct {
	begin     time.Time
	firstByte time.Duration
	text      bytes.Buffer
}

func (g *gathered) Write(p []byte) (int, error) {
	if g.firstByte == 0 {
		g.firstByte = time.Since(g.begin)
	}
	return g.text.Write(p)
}

// read writes the answer down, be it a part of one.
func (g *gathered) read(f *prober.Fetch) {
	if g.text.Len() == 0 {
		return
	}
	f.FirstByte = g.firstByte
	answer, err := http.ReadResponse(bufio.NewReader(&g.text), nil)
	if err != nil {
		return // a part of it, of which the exchange has said why
	}
	defer answer.Body.Close()
	_ = note(f, answer) // the same
	f.Via = ""          // the last is our own
}
