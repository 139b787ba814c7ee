// SPDX-License-Identifier: Apache-2.0

package controller

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
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/socketowner"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// After an exporter process exits or cannot listen, the delay before the next one doubles.
const (
	minExporterBackoff = time.Second
	maxExporterBackoff = time.Minute
)

// exporterSupervisor runs the process that serves metrics while the configuration requires
// one. Its failures affect nothing else.
type exporterSupervisor struct {
	log        *slog.Logger
	output     *child.Output // standard error of the processes
	report     func() report.Report
	setMetrics func(report.Metrics)
	minBackoff time.Duration
	changed    trigger // fires after configure has changed the address

	mu            sync.Mutex
	listenAddress netip.AddrPort // the zero value: no metrics

	// Owned by run:
	lastError    string // the last one that was logged
	servedLogged bool   // that metrics are served was logged after that
	crashing     bool   // a process has exited, and none was stable since
}

// exitError is the exit of an exporter process. The message is the same for each process.
type exitError struct {
	reason string
	pid    int
}

func (e exitError) Error() string { return "the exporter process " + e.reason }

func newExporterSupervisor(log *slog.Logger, report func() report.Report, setMetrics func(report.Metrics), minBackoff time.Duration) *exporterSupervisor {
	return &exporterSupervisor{log: log, output: newChildOutput(log, "exporter"), report: report, setMetrics: setMetrics, minBackoff: minBackoff, changed: newTrigger()}
}

// configure takes the configuration in force.
func (s *exporterSupervisor) configure(c config.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listenAddress == c.Metrics.ListenAddress {
		return
	}
	s.listenAddress = c.Metrics.ListenAddress
	if s.listenAddress.IsValid() {
		s.setMetrics(report.Metrics{Address: s.listenAddress.String()})
	}
	s.changed.fire()
}

func (s *exporterSupervisor) address() netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listenAddress
}

// run supervises one exporter process after another until ctx ends.
func (s *exporterSupervisor) run(ctx context.Context) error {
	var backoff time.Duration
	for ctx.Err() == nil {
		at := s.address()
		if !at.IsValid() {
			s.setMetrics(report.Metrics{})
			s.awaitChange(ctx, at, nil)
			backoff = 0
			s.resetLog()
			continue
		}
		begin := time.Now()
		err := s.supervise(ctx, at)
		switch {
		case ctx.Err() != nil:
		case err == nil: // the configuration has changed
			s.log.Info(fmt.Sprintf("metrics are no longer served on %v", at), slog.String("event", "exporter"))
			backoff = 0
			s.resetLog()
		default:
			if time.Since(begin) > maxExporterBackoff {
				backoff = 0
			}
			backoff = min(max(2*backoff, s.minBackoff), maxExporterBackoff)
			s.recordError(at, err)
			if changed := s.awaitChange(ctx, at, time.After(backoff)); changed {
				backoff = 0
				s.resetLog()
			}
		}
	}
	return nil
}

// resetLog has everything logged again after a change of the configuration.
func (s *exporterSupervisor) resetLog() { s.lastError, s.servedLogged, s.crashing = "", false, false }

// awaitChange waits until the configuration has another address, or for the timeout. It
// reports whether the address has changed.
func (s *exporterSupervisor) awaitChange(ctx context.Context, at netip.AddrPort, timeout <-chan time.Time) (changed bool) {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timeout:
			return false
		case <-s.changed:
			if s.address() != at {
				return true
			}
		}
	}
}

// recordError logs each error once and not with every retry.
func (s *exporterSupervisor) recordError(at netip.AddrPort, err error) {
	s.setMetrics(report.Metrics{Address: at.String(), Error: err.Error()})
	exit := (exitError{})
	s.servedLogged, s.crashing = false, errors.As(err, &exit)
	text := err.Error()
	if text == s.lastError {
		return
	}
	s.lastError = text
	attrs := []slog.Attr{slog.String("event", "exporter"), slog.Any("error", err)}
	if s.crashing {
		attrs = append(attrs, slog.Int("exporter_pid", exit.pid))
	}
	s.log.LogAttrs(context.Background(), slog.LevelError,
		fmt.Sprintf("metrics are not served on %v; the proxy is not affected; retrying", at), attrs...)
}

// logServed logs once that metrics are served, which ends the last error.
func (s *exporterSupervisor) logServed(at netip.AddrPort) {
	if s.servedLogged {
		return
	}
	s.lastError, s.servedLogged, s.crashing = "", true, false
	s.log.Info(fmt.Sprintf("metrics are served on %v", at), slog.String("event", "exporter"))
}

// stablePeriod is how long a process must run before that is logged: the successor of a
// process that exited can exit too.
func (s *exporterSupervisor) stablePeriod() time.Duration {
	if s.crashing {
		return maxExporterBackoff
	}
	return 0
}

// supervise runs one process. It returns nil when ctx ends or the configuration changes.
func (s *exporterSupervisor) supervise(ctx context.Context, at netip.AddrPort) error {
	process, err := startExporterProcess(s.output, at)
	if err != nil {
		return err
	}
	defer process.KillAndClose()
	served, ready := make(chan error, 1), make(chan struct{})
	go func() { served <- s.answerRequests(process.Parent, ready) }()
	var stable <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
			if s.address() != at {
				return nil
			}
		case <-ready:
			s.setMetrics(report.Metrics{Address: at.String(), Served: true})
			ready, stable = nil, time.After(s.stablePeriod())
		case <-stable:
			s.logServed(at)
		case <-process.Done():
			return exitError{exitReason(process, nil), process.PID()}
		case err := <-served:
			return exitError{exitReason(process, err), process.PID()}
		}
	}
}

// startExporterProcess starts a process with the only descriptor of its listening socket:
// the port is free again when the process has exited.
func startExporterProcess(output *child.Output, at netip.AddrPort) (*child.Process, error) {
	fd, err := listenAt(at)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("the port is in use by %s: stop that, or set another port in metrics.listenAddress: %w", socketowner.DescribeTCPPort(at.Port()), err)
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
func (s *exporterSupervisor) answerRequests(conn *wire.Parent, ready chan<- struct{}) error {
	for {
		var event protocol.Event
		if err := conn.Receive(&event); err != nil {
			return err
		}
		if event.Ready != nil {
			if ready == nil {
				return errors.New("it has reported twice that it is ready")
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
