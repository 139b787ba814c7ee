// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/http01-proxyd/http01-proxyd/internal/sandbox"
	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// maxConcurrent bounds the requests that are handled at a time; more wait.
const maxConcurrent = 64

// RunConfined confines the process and handles requests until the connection ends.
func RunConfined(ctx context.Context, conn *wire.Child) error {
	if err := sandbox.Confine(sandbox.Prober); err != nil {
		return fmt.Errorf("confine the prober: %w", err)
	}
	return Run(ctx, conn)
}

// Run handles requests until the connection ends.
func Run(ctx context.Context, conn *wire.Child) error {
	ctx, cancel := context.WithCancel(ctx)
	var handlers sync.WaitGroup
	defer handlers.Wait()
	defer cancel()
	slots := make(chan struct{}, maxConcurrent)
	for {
		var q protocol.Request
		fd, err := conn.Receive(&q)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		slots <- struct{}{}
		handlers.Go(func() {
			defer func() { <-slots }()
			respond(ctx, conn, q, fd)
		})
	}
}

// respond handles a request, and closes the descriptor that came with it unless fd is negative.
func respond(ctx context.Context, conn *wire.Child, q protocol.Request, fd int) {
	ctx, cancel := context.WithTimeout(ctx, q.Timeout)
	defer cancel()
	var socket *os.File
	if fd >= 0 {
		socket = os.NewFile(uintptr(fd), "trace")
		defer socket.Close()
	}
	var r protocol.Response
	// An expired request is an error. A server that does not answer is a result.
	err := ctx.Err()
	if err == nil {
		r, err = dispatch(ctx, q, socket)
	}
	if err != nil {
		details := upstream.Explain(err)
		r = protocol.Response{Error: &details}
	}
	r.ID = q.ID
	r.Sanitize() // also before sending: texts of the network may be long, and JSON makes them longer
	err = conn.Send(r)
	if errors.Is(err, wire.ErrTooLarge) {
		err = conn.Send(protocol.Response{ID: q.ID, Error: &cause.Details{Reason: cause.ResponseTooLong}})
	}
	if err != nil {
		_ = conn.Close()
	}
}

func dispatch(ctx context.Context, q protocol.Request, socket *os.File) (r protocol.Response, err error) {
	switch {
	case q.Certificate != nil:
		r.Certificate, err = fetchCertificate(ctx, q.Certificate)
	case q.Lookup != nil:
		r.Lookup = lookupName(ctx, q.Lookup)
	case q.Fetch != nil && q.Fetch.ViaProxy != nil:
		r.Fetch = viaProxy(ctx, q.Fetch)
	case q.Fetch != nil:
		r.Fetch = fetchPage(ctx, q.Fetch)
	case q.Trace != nil:
		r.Trace, err = readTrace(ctx, q.Trace, socket)
	case q.Clock != nil:
		r.Clock, err = queryClock(ctx, q.Clock)
	default: // the only other payload
		r.Endpoint, err = queryEndpoint(ctx, q.Endpoint)
	}
	return r, err
}
