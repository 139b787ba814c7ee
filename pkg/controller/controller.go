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
	APIServerURLFile  string   // tells the name of the API
	SystemCABundles   []string // where this host's own trusted CAs may be
	ResolvConf        string   // names the DNS servers
	HostsFile         string   // names of addresses, before the DNS is asked
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
	s, err := newComponents(ctx, o)
	if err != nil {
		return err
	}
	t := newTasks(ctx)
	beatGate, doneGate := s.watchdog.Source("gate")
	warden := &proxySupervisor{log: o.Log, output: s.proxyOutput, proxy: s.proxy, stats: s.stats, tracker: s.tracker, liveness: s.liveness, heartbeat: beatGate, silenceLimit: o.timing.GateSilence, done: make(chan struct{})}
	t.group.Go(func() error {
		defer doneGate()
		warden.run(s.gate)
		return nil
	})
	beat, done := s.watchdog.Source("reconcile")
	s.parts.Heartbeat = beat
	loop := reconcile.New(s.parts)
	t.start("address watch", s.addresses.Run)
	t.start("file watch", s.files.Run)
	t.start("status socket", func(ctx context.Context) error {
		return report.Serve(ctx, s.statusSocket, s.report, func(err error) {
			o.Log.Error("cannot encode the status report", slog.String("event", "status-report"), slog.Any("error", err))
		})
	})
	t.start("status line", s.notifier.run)
	t.start("ingress probe", s.upstreamCheck.run)
	t.start("serving check", s.liveness.run)
	t.start("request log", s.stats.run)
	t.start("exporter", s.exporter.run)
	t.start("expiry watch", s.expiry.run)
	t.start("trust watch", s.cas.files.Run)
	t.start("trust", s.cas.run)
	t.start("egress file watch", s.egress.files.Run)
	t.start("egress proxy", s.egress.run)
	t.start("reload signal", func(ctx context.Context) error { return forwardReloads(ctx, loop, o.Reload) })
	t.start("reconcile", func(ctx context.Context) error {
		defer close(warden.done) // once the loop has closed the door
		defer done()
		return loop.Run(ctx)
	})
	err = t.wait()
	s.stats.finish()
	err = errors.Join(err, s.addresses.Close())
	if err != nil {
		return err
	}
	said := "stopped; nothing is left behind"
	if loop.HandedOver {
		said = "stopped; who connects waits for the next start"
	}
	o.Log.Info(said, slog.String("event", "stopped"))
	return nil
}

// service is the parts, built and not yet running.
type service struct {
	tracker       *report.Tracker
	watchdog      *systemd.Watchdog
	addresses     *address.Watcher
	files         *filewatch.Watcher
	statusSocket  *net.UnixListener
	table         *kernelTable
	proxyOutput   *child.Output // of the gates
	gate          *proxyProcess
	upstreamCheck *upstreamCheck
	stats         *statsRecorder
	liveness      *livenessCheck
	notifier      *notifier
	exporter      *exporterSupervisor
	expiry        *expiryWatcher
	cas           *caWatcher
	egress        *egressWatcher
	proxy         *proxyManager
	parts         reconcile.Dependencies
}

func newComponents(ctx context.Context, o Options) (*service, error) {
	store := systemd.NewDescriptorStore()
	kept := inheritedListeners(o.Log, store)
	s := &service{tracker: report.NewTracker(o.Version, time.Now(), logTransition(o.Log)), table: &kernelTable{persistent: store != nil, log: o.Log}}
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
	if s.statusSocket, err = report.Listen(ctx, o.StatusSocket); err != nil {
		return nil, errors.Join(err, s.addresses.Close())
	}
	s.proxyOutput = newChildOutput(o.Log, "gate")
	if s.gate, err = startProxy(s.proxyOutput); err == nil {
		err = s.gate.awaitAlive()
	}
	if err != nil {
		return nil, errors.Join(err, s.statusSocket.Close(), s.addresses.Close())
	}
	s.proxy = &proxyManager{log: o.Log, store: store, listeners: kept, closing: make(map[uint16]chan struct{})}
	if s.cas, err = newCAWatcher(o, s.tracker, s.proxy.SetTrust); err != nil {
		s.gate.KillAndClose()
		return nil, errors.Join(err, s.statusSocket.Close(), s.addresses.Close())
	}
	s.upstreamCheck = newUpstreamCheck(s.tracker, s.proxy.ProbeUpstreams, s.proxy.causeContext)
	s.proxy.onUpstreamChange = s.upstreamCheck.setTargets
	s.stats = newRecorder(o.Log, s.tracker, s.proxy.causeContext, s.upstreamCheck.requestProbe)
	s.liveness = newLivenessCheck(s.tracker, s.stats, s.proxy, o.timing)
	s.notifier = &notifier{log: o.Log, tracker: s.tracker}
	s.exporter = newExporterSupervisor(o.Log, s.report, s.tracker.SetMetrics, o.timing.ExporterBackOff)
	s.expiry = newExpiryWatcher(o.Log, s.tracker, o.APIServerURLFile, o.timing.ExpiryTick)
	if s.egress, err = newEgressWatcher(o, s.tracker, s.addresses.Snapshot, s.proxy.SetEgress); err != nil {
		s.gate.KillAndClose()
		return nil, errors.Join(err, s.statusSocket.Close(), s.addresses.Close())
	}
	s.parts = reconcile.Dependencies{
		Log:         o.Log,
		Tracker:     s.tracker,
		Addresses:   s.addresses,
		Files:       s.files,
		Table:       &observedTable{kernelTable: s.table, liveness: s.liveness},
		Proxy:       proxyConfigurator{s.proxy, s.egress},
		Loopback:    loopback.NewManager(o.Log),
		Notifier:    s.notifier,
		OnVIPChange: s.upstreamCheck.requestProbe,
		OnConfig: func(c config.Config) {
			s.exporter.configure(c)
			s.expiry.configure(c)
			s.cas.configure(c)
			s.egress.configure(c)
		},
		SuccessorExpected:    func() bool { return store != nil && restartPossible(o.Log) },
		Inherited:            s.inheritedState(kept),
		DrainTimeout:         o.timing.Drain,
		ConfigPath:           o.ConfigPath,
		StateDir:             o.StateDir,
		StaticPodDir:         o.Manifests,
		DisabledStaticPodDir: o.DisabledManifests,
		ProcNetDir:           "/proc/net",
		UnitsDir:             microshift.UnitsDir,
		DefaultMicroShiftDir: config.Default().MicroShift.Directory,
	}
	return s, nil
}

// report is what is known now, the gate's last news and the kernel's table included.
func (s *service) report() report.Report {
	s.proxy.FlushStats()
	return s.tracker.Report(s.table.report())
}

// stopQueryTimeout bounds the question why the service is to end.
const stopQueryTimeout = time.Second

// restartPossible finds out whether another process of this unit may follow. When
// nobody knows, one may: if none does, http01-proxyd-table.service takes away what
// is left.
func restartPossible(log *slog.Logger) bool {
	ctx, cancel := context.WithTimeout(context.Background(), stopQueryTimeout)
	defer cancel()
	stopping, err := systemd.HasStopJob(ctx)
	if err != nil {
		log.Warn("cannot tell a stop from a restart: the table is left to the next start, or to http01-proxyd-table.service, which removes it after a stop", slog.String("event", "stopping"), slog.Any("error", err))
	}
	return !stopping
}

// inheritedState is what a former process has left: these listening sockets, and maybe a
// table. Where the table leads to is the port in force.
func (s *service) inheritedState(kept map[uint16]int) reconcile.Inherited {
	if !s.table.persistent {
		return reconcile.Inherited{}
	}
	port, stands := s.table.findInherited()
	if _, listening := kept[port]; !listening {
		port = 0
		for other := range kept {
			port = other
		}
	}
	return reconcile.Inherited{Port: port, Table: stands}
}

// logTransition logs each change of the condition.
func logTransition(log *slog.Logger) func(before, after report.Condition) {
	return func(_, after report.Condition) {
		level := slog.LevelInfo
		if !after.Reason.Ready() && after.Reason != report.Disabled && after.Reason != report.ExternalLoadBalancer {
			level = slog.LevelError
		}
		log.Log(context.Background(), level, fmt.Sprintf("%s: %s", after.Reason, after.Message),
			slog.String("event", "state"), slog.String("reason", string(after.Reason)), slog.String("condition", after.Status))
	}
}

// forwardReloads turns signals into reloads.
func forwardReloads(ctx context.Context, loop *reconcile.Loop, reload <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reload:
			loop.Reload()
		}
	}
}
