// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"log/slog"
	random "math/rand/v2"
	"net"
	"os"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/filewatch"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/changelog"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/expiry"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/kerneltable"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/notifier"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/probe"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/process"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/reconcile"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/statewriter"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/stats"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/statussocket"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/viptest"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/loopback"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/route"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Options are the settings of the command line.
type Options struct {
	config.HostPaths

	SystemCABundles []string // where the CAs that this host trusts can be
	Version         string
	Log             *slog.Logger
	Reload          <-chan os.Signal // each value requests a reload

	timing timing
}

// Run runs the service until ctx ends. Then it completes requests in flight, for 5 s at most.
// It removes the table and the sockets, or hands them over if another process of the service
// may follow. An error means that the service could not start or that a part of it failed.
func Run(ctx context.Context, o Options) error {
	o.timing = o.timing.withDefaults()
	c, err := newComponents(ctx, o)
	defer c.cleanup.run()
	if err != nil {
		return err
	}
	t := newTasks(ctx)
	c.startTasks(t, o)
	err = t.wait()
	c.stats.Finish()
	c.changes.Flush()
	c.writer.Flush()
	if err != nil {
		return err
	}
	message := "stopped; nftables table and sockets removed"
	if c.loop.HandedOver {
		message = "stopped; connections are queued until the next start"
	}
	o.Log.Info(message, slog.String("event", "stopped"))
	return nil
}

// components are the parts of the service in the order of their construction: each one
// uses only those before it.
type components struct {
	cleanup   cleanup // of what was constructed
	changes   *changelog.Log
	tracker   *tracker.Tracker
	watchdog  *systemd.Watchdog
	writer    *statewriter.Writer
	files     *filewatch.Watcher
	addresses *address.Watcher
	socket    *net.UnixListener
	table     *kerneltable.Table
	expiry    *expiry.Watcher

	stats      *stats.Recorder
	supervisor *process.Supervisor
	firstProxy *process.Proxy
	proxyDone  func() // its heartbeats end as planned
	upstreams  *probe.UpstreamCheck
	liveness   *probe.LivenessCheck
	selfTester *probe.SelfTester
	vipTester  *viptest.Tester
	instance   uint64 // random: the ID of this service in responses to test requests
	pipeline   *pipeline
	cas        *trust.Watcher
	egress     *egress.Watcher

	exporter *process.Exporter
	proxy    *process.Client
	notifier *notifier.Notifier
	loop     *reconcile.Loop
	loopDone func()
}

// newComponents constructs the service. After an error, the cleanup of what it returns
// closes what was opened.
func newComponents(ctx context.Context, o Options) (*components, error) {
	c := &components{changes: changelog.New(o.Log), writer: statewriter.New(o.Log)}
	c.instance = random.Uint64() //nolint:gosec // nothing is decided by it that a client could forge
	c.tracker = tracker.New(o.Version, time.Now(), recordTransition(c.changes))
	store := systemd.NewDescriptorStore()
	listeners := process.InheritListeners(o.Log, store)
	output := process.NewOutput(o.Log, "proxy")
	var err error
	if c.firstProxy, err = process.StartProxy(output); err != nil {
		return c, err
	}
	c.cleanup.add(c.firstProxy.KillAndClose)
	c.expiry = expiry.NewWatcher(o.Log, o.timing.ExpiryCheckInterval)
	if err = c.openHost(ctx, o); err != nil {
		return c, err
	}
	c.newProxy(o, output, listeners)
	c.table = kerneltable.New(o.Log, store != nil, c.liveness.SetTable)
	c.pipeline = newPipeline(c.tracker, c.supervisor.PutSettings)
	if c.cas, err = trust.New(trust.Options{
		Log: o.Log, StateDir: o.StateDir, SystemCABundles: o.SystemCABundles,
		ReadInterval: caReadInterval, StallTimeout: o.timing.StallTimeout, Save: c.writer.Save,
	}); err != nil {
		return c, err
	}
	if c.egress, err = egress.New(egress.Options{
		Log: o.Log, StateDir: o.StateDir, SystemCABundles: o.SystemCABundles,
		ResolvConf: o.ResolvConf, HostsFile: o.HostsFile, APIServerURLFile: o.APIServerURLFile,
		StallTimeout: o.timing.StallTimeout, Save: c.writer.Save,
	}); err != nil {
		return c, err
	}
	c.exporter = process.NewExporter(o.Log, c.report, c.tracker.SetMetrics, o.timing.ExporterBackoff)
	c.selfTester = probe.NewSelfTester(probe.SelfTestDependencies{
		Log: o.Log, Tracker: c.tracker, Causes: c.supervisor.Causes.Get, Announce: c.supervisor.AnnounceSelfTest,
		Redirects: c.liveness.Redirects, Reports: c.stats.SelfTested.Values,
		Interval: o.timing.SelfTestInterval,
	})
	c.vipTester = viptest.New(c.supervisor.TestVIPs, c.tracker.SetVIPTests, c.changes.Record,
		probe.ConfirmVIP, c.supervisor.Beats)
	c.proxy = process.NewClient(c.supervisor, c.pipeline.put)
	c.notifier = notifier.New(o.Log, c.tracker, c.proxy.SettingsApplied)
	c.newLoop(o, store != nil, listeners)
	// It starts meanwhile. A host on which it cannot run fails at the start.
	return c, c.firstProxy.AwaitAlive()
}

// openHost opens what the controller watches and serves on this host.
func (c *components) openHost(ctx context.Context, o Options) (err error) {
	if c.watchdog, err = systemd.NewWatchdog(logWatchdogError(o.Log)); err != nil {
		return err
	}
	if c.files, err = filewatch.New(o.Log); err != nil {
		return err
	}
	if c.addresses, err = address.Open(o.Log); err != nil {
		return fmt.Errorf("watch this host's addresses: %w", err)
	}
	c.cleanup.add(func() { _ = c.addresses.Close() })
	if c.socket, err = statussocket.Listen(ctx, o.StatusSocket); err != nil {
		return err
	}
	c.cleanup.add(func() { _ = c.socket.Close() }) // usually its task already closed it
	return nil
}

// newProxy constructs what supervises and checks the proxy process.
func (c *components) newProxy(o Options, output *child.Output, listeners *process.Listeners) {
	causes := &process.Causes{}
	c.upstreams = probe.NewUpstreamCheck(c.tracker, causes.Get)
	c.stats = stats.NewRecorder(o.Log, c.tracker, causes.Get, c.upstreams.Wake, c.expiry.ObserveAttempt)
	var heartbeat func()
	heartbeat, c.proxyDone = c.watchdog.Source("proxy supervisor")
	c.supervisor = process.NewSupervisor(process.Dependencies{
		Log: o.Log, Output: output, Record: c.stats.Record, Tracker: c.tracker, Causes: causes,
		SetTargets: c.upstreams.SetTargets, Listeners: listeners,
		Heartbeat: heartbeat, SilenceLimit: o.timing.ProxySilenceLimit, Instance: c.instance,
	})
	c.liveness = probe.NewLivenessCheck(c.tracker, c.supervisor, o.timing.LivenessTiming)
}

// newLoop constructs the reconcile loop over everything before it.
func (c *components) newLoop(o Options, handsOver bool, listeners *process.Listeners) {
	var heartbeat func()
	heartbeat, c.loopDone = c.watchdog.Source("reconcile")
	c.loop = reconcile.New(reconcile.Dependencies{
		Log:               o.Log,
		RecordChange:      c.changes.Record,
		Tracker:           c.tracker,
		Addresses:         c.addresses,
		Files:             c.files,
		Table:             c.table,
		Proxy:             c.proxy,
		Loopback:          loopback.NewManager(o.Log),
		Notifier:          c.notifier,
		Heartbeat:         heartbeat,
		Observed:          c.observe,
		Save:              c.writer.Save,
		SuccessorExpected: func() bool { return handsOver && restartPossible(o.Log) },
		Inherited:         c.inheritedState(handsOver, listeners.Ports()),
		HostPaths:         o.HostPaths,
		UnitsDir:          microshift.UnitsDir,
		DefaultLinks:      route.DefaultLinks,
		Reload:            o.Reload,
	})
}

// observe passes what the reconcile loop saw to those who need it. It never blocks.
func (c *components) observe(o reconcile.Observation) {
	c.upstreams.Observe(o.VIPs)
	c.exporter.PutAddress(o.Config.Metrics.ListenAddress)
	c.stats.ObserveHosts(slices.Concat(o.Config.Hosts, o.APINames))
	c.expiry.Observe(o.Config.Hosts, o.APINames, o.APINamesErr, o.VIPs)
	c.selfTester.Observe(o.Config, o.APINames, o.VIPs)
	c.vipTester.Observe(o.Config, o.VIPs, o.OneHost)
	c.pipeline.observe(o)
}

// startTasks starts every goroutine of the service.
func (c *components) startTasks(t *tasks, o Options) {
	whileListening, endListening := context.WithCancel(context.WithoutCancel(t.ctx))
	t.group.Go(func() error {
		defer c.proxyDone()
		c.supervisor.Run(whileListening, c.firstProxy)
		return nil
	})
	whileReconciling, endReconciling := context.WithCancel(context.WithoutCancel(t.ctx))
	t.start("address watch", func(context.Context) error { return c.addresses.Run(whileReconciling) })
	t.start("watchdog", func(context.Context) error { return c.watchdog.Run(whileReconciling) })
	t.start("change log", func(context.Context) error { return c.changes.Run(whileReconciling) })
	t.start("file watch", c.files.Run)
	t.start("state writer", c.writer.Run)
	t.start("status socket", func(ctx context.Context) error {
		return statussocket.Serve(ctx, c.socket, c.report, func(err error) {
			o.Log.Error("cannot encode the status report", slog.String("event", "status-report"), slog.Any("error", err))
		})
	})
	t.start("notifier", c.notifier.Run)
	t.start("readiness", c.notifier.RunReady)
	t.start("upstream check", func(ctx context.Context) error { return c.upstreams.Run(ctx, c.supervisor.ProbeUpstreams) })
	t.start("liveness check", c.liveness.Run)
	t.start("self-test", c.selfTester.Run)
	t.start("VIP tests", c.vipTester.Run)
	t.start("statistics", c.stats.Run)
	t.start("exporter supervisor", c.exporter.Run)
	t.start("expiry watcher", func(ctx context.Context) error {
		return c.expiry.Run(ctx, func(all []report.Certificate) {
			c.stats.ObserveCertificates(all)
			c.tracker.SetCertificates(all)
		})
	})
	t.start("CA watcher", func(ctx context.Context) error {
		return c.cas.Run(ctx, c.pipeline.paths.Values, c.pipeline.cas.Put)
	})
	t.start("egress watcher", func(ctx context.Context) error {
		return c.egress.Run(ctx, c.pipeline.inputs.Values, c.upstreams.EgressFailed, c.pipeline.egress.Put)
	})
	t.start("proxy settings", c.pipeline.run)
	t.start("reconcile", func(ctx context.Context) error {
		defer endListening()   // after the loop closed or handed over the ports
		defer endReconciling() // the loop follows VIPs, and records changes, until then
		defer c.loopDone()
		return c.loop.Run(ctx)
	})
}

// report returns the state of the service, with the latest statistics of the proxy
// process and the kernel's table.
func (c *components) report() report.Report {
	c.supervisor.Flush()
	r := c.tracker.Report(c.table.Report())
	r.Instance = fmt.Sprintf("%016x", c.instance)
	for i, one := range r.Certificates {
		r.Certificates[i] = one.WithAttemptsLeft(time.Now())
	}
	return r
}

// stopQueryTimeout bounds the query why the service must end.
const stopQueryTimeout = time.Second

// restartPossible reports whether another process of this unit can start. It is true if
// that is not known: without a successor, http01-proxyd-table.service removes the table.
func restartPossible(log *slog.Logger) bool {
	ctx, cancel := context.WithTimeout(context.Background(), stopQueryTimeout)
	defer cancel()
	stopping, err := systemd.HasStopJob(ctx)
	if err != nil {
		log.Warn("cannot distinguish a stop from a restart: the table stays for the next start, "+
			"or until http01-proxyd-table.service removes it after a stop",
			slog.String("event", "stopping"), slog.Any("error", err))
	}
	return !stopping
}

// inheritedState returns what the previous process left: listening sockets, and the table if it
// still exists in the kernel. The port is the one that the table redirects to.
func (c *components) inheritedState(handsOver bool, ports []uint16) reconcile.Inherited {
	if !handsOver {
		return reconcile.Inherited{}
	}
	port, present := c.table.FindInherited()
	switch {
	case slices.Contains(ports, port):
	case len(ports) > 0:
		port = ports[0]
	default:
		port = 0
	}
	return reconcile.Inherited{Port: port, Table: present}
}

// recordTransition records each change of the condition.
func recordTransition(changes *changelog.Log) func(before, after report.Condition) {
	return func(_, after report.Condition) {
		level := slog.LevelInfo
		if !after.Reason.Ready() && after.Reason != report.Disabled && after.Reason != report.ExternalLoadBalancer {
			level = slog.LevelError
		}
		changes.Record(changelog.Entry{
			Subject: "state", Level: level, Message: fmt.Sprintf("%s: %s", after.Reason, after.Message),
			Attrs: []slog.Attr{
				slog.String("event", "state"), slog.String("reason", string(after.Reason)),
				slog.String("condition", after.Status),
			},
		})
	}
}

func logWatchdogError(log *slog.Logger) func(error) {
	return func(err error) {
		log.Warn("cannot send a heartbeat to systemd's watchdog", slog.String("event", "notify"), slog.Any("error", err))
	}
}
