// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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

// reportSource holds the metrics of the controller's last report and requests another
// report when it is too old.
type reportSource struct {
	conn       *wire.Child
	timeout    time.Duration
	requesting chan struct{}       // a lock: holds a value while a goroutine requests a report
	responses  chan *report.Report // the last one that no goroutine has taken

	// The holder of requesting owns these.
	lastText   string
	receivedAt time.Time
}

func newReportSource(conn *wire.Child, timeout time.Duration) *reportSource {
	return &reportSource{
		conn: conn, timeout: timeout,
		requesting: make(chan struct{}, 1), responses: make(chan *report.Report, 1),
	}
}

// text returns the metrics of a report that is at most [protocol.MaxReportAge] old.
// Concurrent callers get the same text.
func (s *reportSource) text(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	select {
	case s.requesting <- struct{}{}:
		defer func() { <-s.requesting }()
	case <-ctx.Done():
		return "", fmt.Errorf("wait for a report: %w", ctx.Err())
	}
	if s.lastText != "" && time.Since(s.receivedAt) < protocol.MaxReportAge {
		return s.lastText, nil
	}
	s.dropResponse() // a late one
	if err := s.conn.Send(protocol.Event{Request: &protocol.Request{}}); err != nil {
		return "", fmt.Errorf("request a report: %w", err)
	}
	select {
	case r := <-s.responses:
		s.lastText, s.receivedAt = metrics.Text(*r), time.Now()
		return s.lastText, nil
	case <-ctx.Done():
		return "", fmt.Errorf("wait for a report: %w", ctx.Err())
	}
}

func (s *reportSource) dropResponse() {
	select {
	case <-s.responses:
	default:
	}
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
			s.dropResponse()
			s.responses <- c.Report
		}
	}
}
