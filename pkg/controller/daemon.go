// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/filewatch"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/reconcile"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/loopback"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Options are what the command line decides.
type Options struct {
	ConfigPath        string
	StateDir          string
	StatusSocket      string
	Manifests         string
	DisabledManifests string
	APIServerURL      string   // tells the name of the API
	SystemTrust       []string // where this host's own trusted CAs may be
	ResolvConf        string   // names the DNS servers
	Hosts             string   // names of addresses, before the DNS is asked
	Version           string
	Log               *slog.Logger
	Reload            <-chan os.Signal // each value asks for a reload

	timing timing
}

// Run runs the service until ctx ends, and then lets challenges in flight end,
// for 5 s at the longest, and takes everything away again, or leaves it to the next
// process where one may follow. An error means that the service could not start or
// a part of it broke.
func Run(ctx context.Context, o Options) error {
	o.timing = o.timing.withDefaults()
	s, err := build(ctx, o)
	if err != nil {
		return err
	}
	t := newTasks(ctx)
	beatGate, doneGate := s.watchdog.Source("gate")
	warden := &warden{log: o.Log, output: s.output, door: s.door, recorder: s.recorder, board: s.board, serving: s.serving, beat: beatGate, silence: o.timing.GateSilence, finish: make(chan struct{})}
	t.group.Go(func() error {
		defer doneGate()
		warden.run(s.gate)
		return nil
	})
	beat, done := s.watchdog.Source("reconcile")
	s.parts.Beat = beat
	loop := reconcile.New(s.parts)
	t.start("address watch", s.addresses.Run)
	t.start("file watch", s.files.Run)
	t.start("status socket", func(ctx context.Context) error {
		return report.Serve(ctx, s.socket, s.report, func(err error) {
			o.Log.Error("cannot encode the status report", slog.String("event", "status-report"), slog.Any("error", err))
		})
	})
	t.start("status line", s.announcer.run)
	t.start("ingress probe", s.prober.run)
	t.start("serving check", s.serving.run)
	t.start("request log", s.recorder.run)
	t.start("exporter", s.exporter.run)
	t.start("expiry watch", s.expiry.run)
	t.start("trust watch", s.truster.files.Run)
	t.start("trust", s.truster.run)
	t.start("egress file watch", s.egress.files.Run)
	t.start("egress proxy", s.egress.run)
	t.start("reload signal", func(ctx context.Context) error { return reloads(ctx, loop, o.Reload) })
	t.start("reconcile", func(ctx context.Context) error {
		defer close(warden.finish) // once the loop has closed the door
		defer done()
		return loop.Run(ctx)
	})
	err = t.wait()
	s.recorder.finish()
	err = errors.Join(err, s.addresses.Close())
	if err != nil {
		return err
	}
	said := "stopped; nothing is left behind"
	if loop.Suspended {
		said = "stopped; who connects waits for the next start"
	}
	o.Log.Info(said, slog.String("event", "stopped"))
	return nil
}

// service is the parts, built and not yet running.
type service struct {
	board     *report.Board
	watchdog  *systemd.Watchdog
	addresses *address.Watcher
	files     *filewatch.Watcher
	socket    *net.UnixListener
	table     *table
	output    *child.Output // of the gates
	gate      *gateProcess
	prober    *networkProber
	recorder  *recorder
	serving   *servingCheck
	announcer *announcer
	exporter  *exporter
	expiry    *expiryWatch
	truster   *truster
	egress    *egressWatch
	door      *door
	parts     reconcile.Parts
}

func build(ctx context.Context, o Options) (*service, error) {
	store := systemd.NewStore()
	kept := inherited(o.Log, store)
	s := &service{board: report.NewBoard(o.Version, time.Now(), logMoves(o.Log)), table: &table{bridges: store != nil, log: o.Log}}
	var err error
	if s.watchdog, err = systemd.NewWatchdog(); err != nil {
		return nil, err
	}
	if s.files, err = filewatch.New(o.Log); err != nil {
		return nil, err
	}
	if s.addresses, err = address.Open(address.WithLogger(o.Log)); err != nil {
		return nil, fmt.Errorf("watch this host's addresses: %w", err)
	}
	if s.socket, err = report.Listen(ctx, o.StatusSocket); err != nil {
		return nil, errors.Join(err, s.addresses.Close())
	}
	s.output = outputOf(o.Log, "gate")
	if s.gate, err = startGate(s.output); err == nil {
		err = s.gate.awaitAlive()
	}
	if err != nil {
		return nil, errors.Join(err, s.socket.Close(), s.addresses.Close())
	}
	s.door = &door{log: o.Log, store: store, open: kept, leaving: make(map[uint16]chan struct{})}
	if s.truster, err = newTruster(o, s.board, s.door.Trust); err != nil {
		s.gate.End()
		return nil, errors.Join(err, s.socket.Close(), s.addresses.Close())
	}
	s.prober = newProber(s.board, s.door.Probe, s.door.known)
	s.door.retires = s.prober.retarget
	s.recorder = newRecorder(o.Log, s.board, s.door.known, s.prober.hurry)
	s.serving = newServingCheck(s.board, s.recorder, s.door, o.timing)
	s.announcer = &announcer{log: o.Log, board: s.board}
	s.exporter = newExporter(o.Log, s.report, s.board.SetMetrics, o.timing.ExporterBackOff)
	s.expiry = newExpiryWatch(o.Log, s.board, o.APIServerURL, o.timing.ExpiryTick)
	if s.egress, err = newEgressWatch(o, s.board, s.addresses.Snapshot, s.door.Egress); err != nil {
		s.gate.End()
		return nil, errors.Join(err, s.socket.Close(), s.addresses.Close())
	}
	s.door.leads = s.egress.lead
	s.parts = reconcile.Parts{
		Log:       o.Log,
		Board:     s.board,
		Addresses: s.addresses,
		Files:     s.files,
		Table:     &checkedTable{table: s.table, serving: s.serving},
		Door:      s.door,
		Internal:  loopback.New(o.Log),
		Announcer: s.announcer,
		Moved:     s.prober.hurry,
		Configured: func(c config.Config) {
			s.exporter.configure(c)
			s.expiry.configure(c)
			s.truster.configure(c)
			s.egress.configure(c)
		},
		Followed:          func() bool { return store != nil && followed(o.Log) },
		Left:              s.left(kept),
		Drain:             o.timing.Drain,
		ConfigPath:        o.ConfigPath,
		StateDir:          o.StateDir,
		Manifests:         o.Manifests,
		DisabledManifests: o.DisabledManifests,
		Routes:            "/proc/net",
		Units:             microshift.Units,
		MicroShift:        config.Default().MicroShift.Directory,
	}
	return s, nil
}

// report is what is known now, the gate's last news and the kernel's table included.
func (s *service) report() report.Report {
	s.door.Refresh()
	return s.board.Report(s.table.report())
}

// askTime bounds the question why the service is to end.
const askTime = time.Second

// followed finds out whether another process of this unit may follow. When
// nobody knows, one may: if none does, http01-proxyd-table.service takes away what
// is left.
func followed(log *slog.Logger) bool {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	stopping, err := systemd.Stopping(ctx)
	if err != nil {
		log.Warn("cannot tell a stop from a restart: the table is left to the next start, or to http01-proxyd-table.service, which removes it after a stop", slog.String("event", "stopping"), slog.Any("error", err))
	}
	return !stopping
}

// left is what a former process has left: these listening sockets, and maybe a
// table. Where the table leads to is the port in force.
func (s *service) left(kept map[uint16]int) reconcile.Left {
	if !s.table.bridges {
		return reconcile.Left{}
	}
	port, stands := s.table.inherit()
	if _, listening := kept[port]; !listening {
		port = 0
		for other := range kept {
			port = other
		}
	}
	return reconcile.Left{Port: port, Table: stands}
}

// logMoves logs each change of the condition.
func logMoves(log *slog.Logger) func(before, after report.Condition) {
	return func(_, after report.Condition) {
		level := slog.LevelInfo
		if !after.Reason.Ready() && after.Reason != report.Disabled && after.Reason != report.ExternalLoadBalancer {
			level = slog.LevelError
		}
		log.Log(context.Background(), level, fmt.Sprintf("%s: %s", after.Reason, after.Message),
			slog.String("event", "state"), slog.String("reason", string(after.Reason)), slog.String("condition", after.Status))
	}
}

// reloads turns signals into reloads.
func reloads(ctx context.Context, loop *reconcile.Loop, reload <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reload:
			loop.Reload()
		}
	}
}
