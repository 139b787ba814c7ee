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

// reportTimeout is what a keeper that is well takes at the most: it asks the gate and
// the kernel, and lets control.AskEvery pass between two answers.
const reportTimeout = 4 * time.Second

// reportSource has the keeper's report, which it asks for when the last one is too old.
type reportSource struct {
	conn       *protocol.Conn
	timeout    time.Duration // with a keeper that does not answer
	requesting chan struct{} // holds a value while somebody asks

	mu       sync.Mutex
	lastID   uint64             // the last question
	response chan report.Report // that it waits for; nil while nobody waits

	// These are whose who asks.
	lastPage   *metrics.Page
	receivedAt time.Time // when its report came
}

func newReportSource(conn *protocol.Conn, patience time.Duration) *reportSource {
	return &reportSource{conn: conn, timeout: patience, requesting: make(chan struct{}, 1)}
}

// page is of a report that is at most control.AskEvery old. All who ask at once get
// the same one, rendered once.
func (s *reportSource) page(ctx context.Context) (*metrics.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	select {
	case s.requesting <- struct{}{}:
		defer func() { <-s.requesting }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the service: %w", ctx.Err())
	}
	if s.lastPage != nil && time.Since(s.receivedAt) < protocol.MaxReportAge {
		return s.lastPage, nil
	}
	answer, err := s.request()
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
		s.lastPage, s.receivedAt = page, at
		return page, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("ask the service: %w", ctx.Err())
	}
}

func (s *reportSource) request() (<-chan report.Report, error) {
	s.mu.Lock()
	s.lastID++
	question := protocol.ReportRequest{ID: s.lastID}
	answer := make(chan report.Report, 1)
	s.response = answer
	s.mu.Unlock()
	return answer, s.conn.Send(question, -1)
}

// receive takes answers until the connection ends, and returns nil then. One that
// came too late for its question is let go.
func (s *reportSource) receive() error {
	for {
		var o protocol.ExporterCommand
		fd, err := s.conn.Receive(&o)
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd), errors.New("a descriptor came that nobody wants"))
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("listen to the service: %w", err)
		case o.Report != nil:
			s.deliver(o.Report)
		}
	}
}

func (s *reportSource) deliver(a *protocol.ReportResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.response != nil && a.ID == s.lastID {
		s.response <- a.Report
		s.response = nil
	}
}
