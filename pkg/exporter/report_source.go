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

	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/metrics"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// reportTimeout bounds the wait for a report. The controller queries the proxy and the
// kernel for it, and lets [protocol.MaxReportAge] pass between two reports.
const reportTimeout = 4 * time.Second

// reportSource holds the controller's last report and requests another when it is too
// old.
type reportSource struct {
	conn       *wire.Child
	timeout    time.Duration
	requesting chan struct{} // a lock: holds a value while a goroutine requests a report

	mu       sync.Mutex
	lastID   uint64             // of the last request
	response chan report.Report // for the last request; nil while no goroutine waits

	// The holder of requesting owns these.
	lastPage   *metrics.Page
	receivedAt time.Time
}

func newReportSource(conn *wire.Child, timeout time.Duration) *reportSource {
	return &reportSource{conn: conn, timeout: timeout, requesting: make(chan struct{}, 1)}
}

// page returns the page of a report that is at most [protocol.MaxReportAge] old.
// Concurrent callers get the same page.
func (s *reportSource) page(ctx context.Context) (*metrics.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	select {
	case s.requesting <- struct{}{}:
		defer func() { <-s.requesting }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a report: %w", ctx.Err())
	}
	if s.lastPage != nil && time.Since(s.receivedAt) < protocol.MaxReportAge {
		return s.lastPage, nil
	}
	response, err := s.request()
	if err != nil {
		return nil, fmt.Errorf("request a report: %w", err)
	}
	select {
	case r := <-response:
		receivedAt := time.Now()
		page, err := metrics.NewPage(r)
		if err != nil {
			return nil, err
		}
		s.lastPage, s.receivedAt = page, receivedAt
		return page, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a report: %w", ctx.Err())
	}
}

func (s *reportSource) request() (<-chan report.Report, error) {
	s.mu.Lock()
	s.lastID++
	id := s.lastID
	response := make(chan report.Report, 1)
	s.response = response
	s.mu.Unlock()
	return response, s.conn.Send(protocol.Event{Request: &protocol.Request{ID: id}})
}

// receive receives reports until the connection ends, and returns nil then.
func (s *reportSource) receive() error {
	for {
		var c protocol.Command
		fd, err := s.conn.Receive(&c)
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd), errors.New("unexpected descriptor"))
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("receive a report: %w", err)
		case c.Report != nil:
			s.deliver(c.Report)
		}
	}
}

// deliver passes a report to the goroutine that requested it. It drops a late one.
func (s *reportSource) deliver(r *protocol.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.response != nil && r.ID == s.lastID {
		s.response <- r.Report
		s.response = nil
	}
}
