// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/mailbox"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/socketowner"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// After an exporter process exits or cannot listen, the delay before the next one doubles.
const (
	// MinExporterBackoff is the first one.
	MinExporterBackoff = time.Second
	maxExporterBackoff = time.Minute
)

// Exporter runs the exporter process, which serves metrics, while the configuration requires
// one. Its failures affect nothing else.
type Exporter struct {
	log        *slog.Logger
	output     *child.Output // standard error of the processes
	report     func() report.Report
	setMetrics func(report.Metrics)
	minBackoff time.Duration
	addresses  *mailbox.Mailbox[netip.AddrPort] // the zero value: no metrics
}

// NewExporter returns an exporter supervisor. It does nothing before Run.
func NewExporter(
	log *slog.Logger, report func() report.Report, setMetrics func(report.Metrics), minBackoff time.Duration,
) *Exporter {
	return &Exporter{
		log: log, output: NewOutput(log, "exporter"), report: report, setMetrics: setMetrics, minBackoff: minBackoff,
		addresses: mailbox.New[netip.AddrPort](),
	}
}

// PutAddress takes the address of the metrics. The zero value means no metrics. It never blocks.
func (s *Exporter) PutAddress(at netip.AddrPort) { s.addresses.Put(at) }

// Run serves metrics on the configured address until ctx ends.
func (s *Exporter) Run(ctx context.Context) error {
	var at netip.AddrPort
	var serving sync.WaitGroup
	end := func() {}
	for {
		select {
		case <-ctx.Done():
			end()
			serving.Wait()
			return nil
		case next := <-s.addresses.Values:
			if next == at {
				continue
			}
			end()
			serving.Wait()
			if at.IsValid() {
				s.log.Info(fmt.Sprintf("metrics are no longer served on %v", at), slog.String("event", "exporter"))
			}
			at = next
			if !at.IsValid() {
				s.setMetrics(report.Metrics{})
				continue
			}
			s.setMetrics(report.Metrics{Address: at.String()})
			current, cancel := context.WithCancel(ctx)
			end = cancel
			serving.Go(func() { s.serve(current, at) })
		}
	}
}

// serve supervises one exporter process after another until ctx ends. It logs an error once and not
// with every retry.
func (s *Exporter) serve(ctx context.Context, at netip.AddrPort) {
	backoff, lastError := s.minBackoff, ""
	for {
		begin := time.Now()
		err := s.supervise(ctx, at, func() {
			lastError = ""
			s.setMetrics(report.Metrics{Address: at.String(), Served: true})
			s.log.Info(fmt.Sprintf("metrics are served on %v", at), slog.String("event", "exporter"))
		})
		if ctx.Err() != nil {
			return
		}
		if time.Since(begin) > maxExporterBackoff {
			backoff = s.minBackoff
		}
		s.setMetrics(report.Metrics{Address: at.String(), Error: err.Error()})
		if text := err.Error(); text != lastError {
			lastError = text
			s.log.Error(fmt.Sprintf("metrics are not served on %v; the proxy is not affected; retrying", at),
				slog.String("event", "exporter"), slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxExporterBackoff)
	}
}

// supervise runs one process until it ends or ctx does. It calls ready when the process serves.
func (s *Exporter) supervise(ctx context.Context, at netip.AddrPort, ready func()) error {
	process, err := startExporterProcess(s.output, at)
	if err != nil {
		return err
	}
	defer process.KillAndClose()
	served, serves := make(chan error, 1), make(chan struct{})
	go func() { served <- s.answerRequests(process.Parent, serves) }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-serves:
			ready()
			serves = nil
		case <-process.Done():
			return errors.New("the exporter process " + exitReason(process, nil))
		case err := <-served:
			return errors.New("the exporter process " + exitReason(process, err))
		}
	}
}

// startExporterProcess starts a process with the only descriptor of its listening socket:
// the port is free again when the process exited.
func startExporterProcess(output *child.Output, at netip.AddrPort) (*child.Process, error) {
	fd, err := listenAt(at)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		owner, _, _ := socketowner.DescribeTCPPort(at.Port())
		return nil, fmt.Errorf("the port is in use by %s: stop that, or set another port in metrics.listenAddress: %w",
			owner, err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return nil, fmt.Errorf("set an address of this host in metrics.listenAddress, or the port alone: %w", err)
	case err != nil:
		return nil, err
	}
	defer unix.Close(fd)
	process, err := child.Start(child.Exporter, output)
	if err != nil {
		return nil, err
	}
	if err := process.Send(protocol.Command{Serve: &protocol.Serve{}}, fd); err != nil {
		process.KillAndClose()
		return nil, err
	}
	return process, nil
}

// answerRequests answers the report requests of a process until its connection ends, and
// closes ready when the process serves. Requests that come faster than our exporter sends
// them wait.
func (s *Exporter) answerRequests(conn *wire.Parent, ready chan<- struct{}) error {
	for {
		var event protocol.Event
		if err := conn.Receive(&event); err != nil {
			return err
		}
		if event.Ready != nil {
			if ready == nil {
				return errors.New("it reported twice that it is ready")
			}
			close(ready)
			ready = nil
			continue
		}
		next := time.After(protocol.MaxReportAge)
		if err := conn.Send(protocol.Command{Report: protocol.NewReport(s.report())}, -1); err != nil {
			return err
		}
		<-next
	}
}
