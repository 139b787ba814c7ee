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

// An exporter that ends, or that has no socket, is followed by another ever later.
const (
	minExporterBackoff = time.Second
	maxExporterBackoff = time.Minute
)

// exporterSupervisor keeps the process that serves metrics at work while the configuration
// asks for one. Whatever becomes of it changes nothing else: it is there to watch.
type exporterSupervisor struct {
	log        *slog.Logger
	output     *child.Output // of the exporters
	report     func() report.Report
	setMetrics func(report.Metrics) // what is so now
	minBackoff time.Duration        // before the second exporter
	changed    chan struct{}        // yields a value some time after configure has changed the address

	mu            sync.Mutex
	listenAddress netip.AddrPort // where to serve; the zero value: nowhere

	// For run alone:
	lastError    string // the last complaint
	servedLogged bool   // that metrics are served was said after that
	crashing     bool   // an exporter has ended, and none has worked for a while since
}

// awaitExit is an exporter's end: what it is about does not tell one from another.
type exitError struct {
	reason string
	pid    int
}

func (e exitError) Error() string { return "the exporter " + e.reason }

func newExporterSupervisor(log *slog.Logger, report func() report.Report, tell func(report.Metrics), backOff time.Duration) *exporterSupervisor {
	return &exporterSupervisor{log: log, output: newChildOutput(log, "exporter"), report: report, setMetrics: tell, minBackoff: backOff, changed: make(chan struct{}, 1)}
}

// configure takes the configuration in force.
func (e *exporterSupervisor) configure(c config.Config) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listenAddress == c.Metrics.ListenAddress {
		return
	}
	e.listenAddress = c.Metrics.ListenAddress
	if e.listenAddress.IsValid() {
		e.setMetrics(report.Metrics{Address: e.listenAddress.String()})
	}
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

func (e *exporterSupervisor) address() netip.AddrPort {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.listenAddress
}

// run attends one exporter after another until ctx ends.
func (e *exporterSupervisor) run(ctx context.Context) error {
	var backOff time.Duration
	for ctx.Err() == nil {
		at := e.address()
		if !at.IsValid() {
			e.setMetrics(report.Metrics{})
			e.awaitChange(ctx, at, nil)
			backOff = 0
			e.resetLog()
			continue
		}
		begin := time.Now()
		err := e.supervise(ctx, at)
		switch {
		case ctx.Err() != nil:
		case err == nil: // the configuration has changed
			e.log.Info(fmt.Sprintf("metrics are not served on %v any more", at), slog.String("event", "exporter"))
			backOff = 0
			e.resetLog()
		default:
			if time.Since(begin) > maxExporterBackoff {
				backOff = 0
			}
			backOff = min(max(2*backOff, e.minBackoff), maxExporterBackoff)
			e.recordError(at, err)
			if changed := e.awaitChange(ctx, at, time.After(backOff)); changed {
				backOff = 0
				e.resetLog()
			}
		}
	}
	return nil
}

// resetResults has everything be said anew: the configuration has changed.
func (e *exporterSupervisor) resetLog() { e.lastError, e.servedLogged, e.crashing = "", false, false }

// awaitChange returns whether the configuration says another address, as soon as it does
// or enough comes.
func (e *exporterSupervisor) awaitChange(ctx context.Context, at netip.AddrPort, enough <-chan time.Time) (changed bool) {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-enough:
			return false
		case <-e.changed:
			if e.address() != at {
				return true
			}
		}
	}
}

// recordError says a thing once and not with every try.
func (e *exporterSupervisor) recordError(at netip.AddrPort, err error) {
	e.setMetrics(report.Metrics{Address: at.String(), Error: err.Error()})
	end := (exitError{})
	e.servedLogged, e.crashing = false, errors.As(err, &end)
	said := err.Error()
	if said == e.lastError {
		return
	}
	e.lastError = said
	attrs := []slog.Attr{slog.String("event", "exporter"), slog.Any("error", err)}
	if e.crashing {
		attrs = append(attrs, slog.Int("exporter_pid", end.pid))
	}
	e.log.LogAttrs(context.Background(), slog.LevelError,
		fmt.Sprintf("metrics are not served on %v, the front door is not affected; trying again", at), attrs...)
}

// logServed says once that metrics are served. What was complained of is over then.
func (e *exporterSupervisor) logServed(at netip.AddrPort) {
	if e.servedLogged {
		return
	}
	e.lastError, e.servedLogged, e.crashing = "", true, false
	e.log.Info(fmt.Sprintf("metrics are served on %v", at), slog.String("event", "exporter"))
}

// stablePeriod is how long an exporter has to be at work before that is news: one that
// follows one that has ended may be about to end, too.
func (e *exporterSupervisor) stablePeriod() time.Duration {
	if e.crashing {
		return maxExporterBackoff
	}
	return 0
}

// setProcess makes a socket and serves an exporter on it. It returns nil when ctx or
// the configuration wants it to end.
func (e *exporterSupervisor) supervise(ctx context.Context, at netip.AddrPort) error {
	process, err := startExporter(e.output, at)
	if err != nil {
		return err
	}
	defer process.KillAndClose()
	served, works := make(chan error, 1), make(chan struct{})
	go func() { served <- e.answerRequests(process.Parent, works) }()
	var proven <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.changed:
			if e.address() != at {
				return nil
			}
		case <-works:
			e.setMetrics(report.Metrics{Address: at.String(), Served: true})
			works, proven = nil, time.After(e.stablePeriod())
		case <-proven:
			e.logServed(at)
		case <-process.Done():
			return exitError{exitReason(process, nil), process.PID()}
		case err := <-served:
			return exitError{exitReason(process, err), process.PID()}
		}
	}
}

// startExporter starts one that has the only copy of its listening socket: when it
// is gone, so is the port.
func startExporter(output *child.Output, at netip.AddrPort) (*child.Process, error) {
	fd, err := listenAt(at)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("%w: the port is taken by %s: stop that, or give another port in metrics.listenAddress", err, socketowner.DescribeTCPPort(at.Port()))
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%w: give an address of this host in metrics.listenAddress, or the port alone", err)
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

// answerRequests answers an exporter until its connection ends, and closes ready when the
// exporter reports that it is ready. Requests that come too often have to wait.
func (s *exporterSupervisor) answerRequests(conn *wire.Parent, ready chan<- struct{}) error {
	for {
		var e protocol.Event
		if err := conn.Receive(&e); err != nil {
			return err
		}
		if e.Ready != nil {
			if ready == nil {
				return errors.New("it has reported twice that it is ready")
			}
			close(ready)
			ready = nil
			continue
		}
		next := time.After(protocol.MaxReportAge)
		if err := conn.Send(protocol.Command{Report: &protocol.Report{ID: e.Request.ID, Report: metricsReport(s.report())}}, -1); err != nil {
			return err
		}
		<-next
	}
}

// metricsReport is what of a report becomes a metric. Who asked for what is nothing for
// a process that reads what the network sends.
func metricsReport(r report.Report) report.Report {
	return report.Report{
		Build:        r.Build,
		Conditions:   []report.Condition{{Type: report.ConditionType, Reason: r.Condition().Reason}},
		VIPs:         r.VIPs,
		Table:        r.Table,
		Traffic:      r.Traffic,
		Events:       r.Events,
		Certificates: r.Certificates,
		Trust:        metricsTrust(r.Trust),
		EgressProxy:  metricsEgress(r.EgressProxy),
	}
}

// metricsEgress has no names of proxies, endpoints and addresses.
func metricsEgress(e report.EgressProxy) report.EgressProxy {
	m := report.EgressProxy{Upstream: e.Upstream, Pending: e.Pending, InvalidInput: e.InvalidInput, Routes: make([]report.EgressRoute, len(e.Routes))}
	for _, endpoint := range e.Endpoints {
		m.Endpoints = append(m.Endpoints, report.EgressEndpoint{OK: endpoint.OK})
	}
	return m
}

// metricsTrust has no names of certificates.
func metricsTrust(t report.Trust) report.Trust {
	m := report.Trust{Kind: t.Kind, Certificates: t.Certificates, Since: t.Since, IgnoredTotal: t.IgnoredTotal}
	if t.Error != "" {
		m.Error = "refused"
	}
	return m
}
