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
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/socketowner"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// An exporter that ends, or that has no socket, is followed by another ever later.
const (
	minExporterBackOff = time.Second
	maxExporterBackOff = time.Minute
)

// exporter keeps the process that serves metrics at work while the configuration
// asks for one. Whatever becomes of it changes nothing else: it is there to watch.
type exporter struct {
	log     *slog.Logger
	output  *child.Output // of the exporters
	report  func() report.Report
	tell    func(report.Metrics) // what is so now
	backOff time.Duration        // before the second exporter
	changed chan struct{}        // yields a value some time after configure has changed the address

	mu sync.Mutex
	at netip.AddrPort // where to serve; the zero value: nowhere

	// For run alone:
	said      string // the last complaint
	announced bool   // that metrics are served was said after that
	crashing  bool   // an exporter has ended, and none has worked for a while since
}

// ended is an exporter's end: what it is about does not tell one from another.
type ended struct {
	why string
	pid int
}

func (e ended) Error() string { return "the exporter " + e.why }

func newExporter(log *slog.Logger, report func() report.Report, tell func(report.Metrics), backOff time.Duration) *exporter {
	return &exporter{log: log, output: outputOf(log, "exporter"), report: report, tell: tell, backOff: backOff, changed: make(chan struct{}, 1)}
}

// configure takes the configuration in force.
func (e *exporter) configure(c config.Config) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at == c.Metrics.ListenAddress {
		return
	}
	e.at = c.Metrics.ListenAddress
	if e.at.IsValid() {
		e.tell(report.Metrics{Address: e.at.String()})
	}
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

func (e *exporter) address() netip.AddrPort {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at
}

// run attends one exporter after another until ctx ends.
func (e *exporter) run(ctx context.Context) error {
	var backOff time.Duration
	for ctx.Err() == nil {
		at := e.address()
		if !at.IsValid() {
			e.tell(report.Metrics{})
			e.wait(ctx, at, nil)
			backOff = 0
			e.forget()
			continue
		}
		begin := time.Now()
		err := e.attend(ctx, at)
		switch {
		case ctx.Err() != nil:
		case err == nil: // the configuration has changed
			e.log.Info(fmt.Sprintf("metrics are not served on %v any more", at), slog.String("event", "exporter"))
			backOff = 0
			e.forget()
		default:
			if time.Since(begin) > maxExporterBackOff {
				backOff = 0
			}
			backOff = min(max(2*backOff, e.backOff), maxExporterBackOff)
			e.complain(at, err)
			if changed := e.wait(ctx, at, time.After(backOff)); changed {
				backOff = 0
				e.forget()
			}
		}
	}
	return nil
}

// forget has everything be said anew: the configuration has changed.
func (e *exporter) forget() { e.said, e.announced, e.crashing = "", false, false }

// wait returns whether the configuration says another address, as soon as it does
// or enough comes.
func (e *exporter) wait(ctx context.Context, at netip.AddrPort, enough <-chan time.Time) (changed bool) {
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

// complain says a thing once and not with every try.
func (e *exporter) complain(at netip.AddrPort, err error) {
	e.tell(report.Metrics{Address: at.String(), Error: err.Error()})
	end := (ended{})
	e.announced, e.crashing = false, errors.As(err, &end)
	said := err.Error()
	if said == e.said {
		return
	}
	e.said = said
	attrs := []slog.Attr{slog.String("event", "exporter"), slog.Any("error", err)}
	if e.crashing {
		attrs = append(attrs, slog.Int("exporter_pid", end.pid))
	}
	e.log.LogAttrs(context.Background(), slog.LevelError,
		fmt.Sprintf("metrics are not served on %v, the front door is not affected; trying again", at), attrs...)
}

// announce says once that metrics are served. What was complained of is over then.
func (e *exporter) announce(at netip.AddrPort) {
	if e.announced {
		return
	}
	e.said, e.announced, e.crashing = "", true, false
	e.log.Info(fmt.Sprintf("metrics are served on %v", at), slog.String("event", "exporter"))
}

// proof is how long an exporter has to be at work before that is news: one that
// follows one that has ended may be about to end, too.
func (e *exporter) proof() time.Duration {
	if e.crashing {
		return maxExporterBackOff
	}
	return 0
}

// attend makes a socket and serves an exporter on it. It returns nil when ctx or
// the configuration wants it to end.
func (e *exporter) attend(ctx context.Context, at netip.AddrPort) error {
	process, err := startExporter(e.output, at)
	if err != nil {
		return err
	}
	defer process.End()
	served, works := make(chan error, 1), make(chan struct{})
	go func() { served <- e.serve(process.Conn, works) }()
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
			e.tell(report.Metrics{Address: at.String(), Served: true})
			works, proven = nil, time.After(e.proof())
		case <-proven:
			e.announce(at)
		case <-process.Ended():
			return ended{explain(process, nil), process.PID()}
		case err := <-served:
			return ended{explain(process, err), process.PID()}
		}
	}
}

// startExporter starts one that has the only copy of its listening socket: when it
// is gone, so is the port.
func startExporter(output *child.Output, at netip.AddrPort) (*child.Process, error) {
	fd, err := listenFor(at)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("%w: the port is taken by %s: stop that, or give another port in metrics.listenAddress", err, socketowner.OfTCPPort(at.Port()))
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%w: give an address of this host in metrics.listenAddress, or the port alone", err)
	case err != nil:
		return nil, err
	}
	defer unix.Close(fd)
	process, err := child.Start("exporter", output)
	if err != nil {
		return nil, err
	}
	if err := process.Send(protocol.ExporterOrder{Serve: &protocol.Serve{}}, fd); err != nil {
		process.End()
		return nil, err
	}
	return process, nil
}

// serve answers an exporter until its connection ends, and closes works when the
// exporter says that it is at work. One that asks more often than ours has to wait.
func (e *exporter) serve(conn *protocol.Conn, works chan<- struct{}) error {
	for {
		var ask protocol.Ask
		fd, err := conn.Receive(&ask)
		if fd >= 0 {
			return errors.Join(errors.New("it has sent a descriptor"), unix.Close(fd))
		}
		if err != nil {
			return err
		}
		if ask.ID == protocol.AtWork {
			if works == nil {
				return errors.New("it has said twice that it is at work")
			}
			close(works)
			works = nil
			continue
		}
		next := time.After(protocol.AskEvery)
		if err := conn.Send(protocol.ExporterOrder{Answer: &protocol.Answer{ID: ask.ID, Report: measured(e.report())}}, -1); err != nil {
			return err
		}
		<-next
	}
}

// measured is what of a report becomes a metric. Who asked for what is nothing for
// a process that reads what the network sends.
func measured(r report.Report) report.Report {
	return report.Report{
		Build:        r.Build,
		Conditions:   []report.Condition{{Type: report.ConditionType, Reason: r.Condition().Reason}},
		VIPs:         r.VIPs,
		Table:        r.Table,
		Traffic:      r.Traffic,
		Events:       r.Events,
		Certificates: r.Certificates,
		Trust:        measuredTrust(r.Trust),
		EgressProxy:  measuredEgress(r.EgressProxy),
	}
}

// measuredEgress has no names of proxies, endpoints and addresses.
func measuredEgress(e report.EgressProxy) report.EgressProxy {
	m := report.EgressProxy{Upstream: e.Upstream, Pending: e.Pending, RefusedBy: e.RefusedBy, Through: make([]report.EgressThrough, len(e.Through))}
	for _, endpoint := range e.Endpoints {
		m.Endpoints = append(m.Endpoints, report.EgressEndpoint{OK: endpoint.OK})
	}
	return m
}

// measuredTrust has no names of certificates.
func measuredTrust(t report.Trust) report.Trust {
	m := report.Trust{Kind: t.Kind, Certificates: t.Certificates, Since: t.Since, LeftOutTotal: t.LeftOutTotal}
	if t.Error != "" {
		m.Error = "refused"
	}
	return m
}
