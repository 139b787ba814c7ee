// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// maxConcurrent bounds the questions that are looked into at a time; more wait.
const maxConcurrent = 64

// RunConfined answers questions until the connection ends, after giving up every
// system call that this does not take.
func RunConfined(ctx context.Context, conn *protocol.Conn) error {
	if err := sandbox.Confine(sandbox.Prober); err != nil {
		return fmt.Errorf("confine the probe: %w", err)
	}
	return Run(ctx, conn)
}

// Run answers questions until the connection ends.
func Run(ctx context.Context, conn *protocol.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	slots := make(chan struct{}, maxConcurrent)
	for {
		var q prober.Request
		_, err := conn.Receive(&q)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			respond(ctx, conn, q)
		})
	}
}

func respond(ctx context.Context, conn *protocol.Conn, q prober.Request) {
	ctx, cancel := context.WithTimeout(ctx, q.Timeout)
	defer cancel()
	var a prober.Response
	// What cannot be asked is told apart from what nobody has answered.
	err := ctx.Err()
	if err == nil {
		a, err = dispatch(ctx, q)
	}
	a.ID = q.ID
	if err != nil {
		why := upstream.Explain(err)
		a.Error = &why
	}
	// Before it is sent too: texts of the network may be long, and grow as JSON.
	err = conn.Send(a.Sanitized(), -1)
	if errors.Is(err, protocol.ErrTooLarge) {
		err = conn.Send(prober.Response{ID: q.ID, Error: &cause.Details{Reason: cause.ResponseTooLong}}, -1)
	}
	if err != nil {
		_ = conn.Close()
	}
}

func dispatch(ctx context.Context, q prober.Request) (a prober.Response, err error) {
	switch {
	case q.Certificate != nil:
		a.Certificate, err = fetchCertificate(ctx, q.Certificate)
	case q.Lookup != nil:
		a.Lookup = lookupName(ctx, q.Lookup)
	case q.Fetch != nil && q.Fetch.ViaProxy != nil:
		a.Fetch = viaProxy(ctx, q.Fetch)
	case q.Fetch != nil:
		a.Fetch = fetchPage(ctx, q.Fetch)
	case q.Neighbours != nil:
		a.Neighbours = parseNeighbours(q.Neighbours)
	case q.Clock != nil:
		a.Clock, err = queryClock(ctx, q.Clock)
	case q.Endpoint != nil:
		a.Endpoint, err = queryEndpoint(ctx, q.Endpoint)
	default:
		err = cause.Details{Reason: cause.InvalidRequest}
	}
	return a, err
}
