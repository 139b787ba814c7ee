// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/metrics"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// answerTime is what a keeper that is well takes at the most: it asks the gate and
// the kernel, and lets control.AskEvery pass between two answers.
const answerTime = 4 * time.Second

// source has the keeper's report, which it asks for when the last one is too old.
type source struct {
	conn     *protocol.Conn
	patience time.Duration // with a keeper that does not answer
	asking   chan struct{} // holds a value while somebody asks

	mu     sync.Mutex
	asked  uint64             // the last question
	answer chan report.Report // that it waits for; nil while nobody waits

	// These are whose who asks.
	last *metrics.Page
	at   time.Time // when its report came
}

func newSource(conn *protocol.Conn, patience time.Duration) *source {
	return &source{conn: conn, patience: patience, asking: make(chan struct{}, 1)}
}

// page is of a report that is at most control.AskEvery old. All who ask at once get
// the same one, rendered once.
func (s *source) page(ctx context.Context) (*metrics.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the service: %w", ctx.Err())
	}
	if s.last != nil && time.Since(s.at) < protocol.AskEvery {
		return s.last, nil
	}
	answer, err := s.ask()
	if err != nil {
		return nil, fmt.Errorf("ask the service: %w", err)
	}
	select {
	case report := <-answer:
		at := time.Now()
		page, err := metrics.NewPage(report)
		if err != nil {
			return nil, err
		}
		s.last, s.at = page, at
		return page, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("ask the service: %w", ctx.Err())
	}
}

func (s *source) ask() (<-chan report.Report, error) {
	s.mu.Lock()
	s.asked++
	question := protocol.Ask{ID: s.asked}
	answer := make(chan report.Report, 1)
	s.answer = answer
	s.mu.Unlock()
	return answer, s.conn.Send(question, -1)
}

// receive takes answers until the connection ends, and returns nil then. One that
// came too late for its question is let go.
func (s *source) receive() error {
	for {
		var o protocol.ExporterOrder
		fd, err := s.conn.Receive(&o)
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd), errors.New("a descriptor came that nobody wants"))
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("listen to the service: %w", err)
		case o.Answer != nil:
			s.take(o.Answer)
		}
	}
}

func (s *source) take(a *protocol.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer != nil && a.ID == s.asked {
		s.answer <- a.Report
		s.answer = nil
	}
}
