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

// atOnce bounds the questions that are looked into at a time; more wait.
const atOnce = 64

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
	slots := make(chan struct{}, atOnce)
	for {
		var q prober.Question
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
			answer(ctx, conn, q)
		})
	}
}

func answer(ctx context.Context, conn *protocol.Conn, q prober.Question) {
	ctx, cancel := context.WithTimeout(ctx, q.Budget)
	defer cancel()
	var a prober.Answer
	// What cannot be asked is told apart from what nobody has answered.
	err := ctx.Err()
	if err == nil {
		a, err = find(ctx, q)
	}
	a.ID = q.ID
	if err != nil {
		why := upstream.Explain(err)
		a.Error = &why
	}
	// Before it is sent too: texts of the network may be long, and grow as JSON.
	err = conn.Send(a.Tamed(), -1)
	if errors.Is(err, protocol.ErrTooLarge) {
		err = conn.Send(prober.Answer{ID: q.ID, Error: &cause.Why{Reason: cause.AnswerTooLong}}, -1)
	}
	if err != nil {
		_ = conn.Close()
	}
}

func find(ctx context.Context, q prober.Question) (a prober.Answer, err error) {
	switch {
	case q.Certificate != nil:
		a.Certificate, err = certificate(ctx, q.Certificate)
	case q.Lookup != nil:
		a.Lookup = lookup(ctx, q.Lookup)
	case q.Fetch != nil && q.Fetch.Gate != nil:
		a.Fetch = asGate(ctx, q.Fetch)
	case q.Fetch != nil:
		a.Fetch = fetch(ctx, q.Fetch)
	case q.Neighbours != nil:
		a.Neighbours = neighbours(q.Neighbours)
	case q.Clock != nil:
		a.Clock, err = clock(ctx, q.Clock)
	case q.Through != nil:
		a.Through, err = through(ctx, q.Through)
	default:
		err = cause.Why{Reason: cause.BadQuestion}
	}
	return a, err
}
