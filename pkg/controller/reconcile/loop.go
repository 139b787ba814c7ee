// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/asyncread"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/changelog"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// resyncInterval is the interval of complete passes without an event. Lost events of netlink
	// and inotify are reported, and cause a pass. This is for changes without an event, such as on
	// a network file system.
	resyncInterval = 2 * time.Minute

	// stallTimeout is how long reading the files may take, which is some milliseconds. After it, the state
	// reports that the files are not followed.
	stallTimeout = 10 * time.Second

	// heartbeatInterval is the interval of heartbeats of an idle loop. WatchdogSec of the
	// unit is three times as long. The longest act of a pass without a heartbeat is the drain
	// of the listeners: 5 s, and a second for the answer.
	heartbeatInterval = 10 * time.Second

	// minRetryDelay and maxRetryDelay bound the delay after a failure, which doubles.
	minRetryDelay = 100 * time.Millisecond
	maxRetryDelay = 5 * time.Second

	// startTimeout bounds the start. After that time, the service notifies systemd that it is
	// ready even if it does not work yet, reports the reason in its status and retries. systemd
	// would kill and restart a unit that never becomes ready, and nobody could read why.
	startTimeout = 2 * time.Second
)

// Addresses returns the addresses and links of this host, and signals changes.
type Addresses interface {
	Snapshot() ([]address.Address, error)
	Links() ([]address.Link, error)
	Changed() <-chan struct{}
	// TakeEventTime returns when the first event since the last call was received.
	TakeEventTime() time.Time
}

// Files signals that a watched file may have changed.
type Files interface {
	Watch(paths ...string)
	Changed() <-chan struct{}
}

// Table is the nftables table in the kernel. Apply makes it equal to t in one transaction.
type Table interface {
	Apply(t ruleset.Table) error
	// Verify compares the table in the kernel with the applied one. If it differs, err is
	// the difference and the next Apply corrects it. Otherwise err is why it could not be
	// read.
	Verify() (differs bool, err error)
	Remove() error
	// Retain leaves the table in the kernel for the next process of this service. It is the
	// last call.
	Retain() error
}

// Proxy is the proxy process and its listeners.
type Proxy interface {
	// Configure sets the rules for requests and the ingress addresses.
	Configure(c config.Config, ingress []netip.Addr)
	// Open adds a listener on a port. It does nothing if there is one.
	Open(port uint16) error
	// CloseExcept closes every other listener after the connections in its backlog
	// were served. redirected means that the table referred to the others: a process
	// that is not ready yet serves their backlogs later.
	CloseExcept(port uint16, redirected bool)
	// Close closes all listeners and waits for the challenges in flight, for seconds at most.
	Close()
	// HandOver stops the proxy like Close, but keeps the listeners, and does not wait. New
	// connections are queued until the next process of this service starts. It is the last
	// call. ended is closed when no challenge is in flight any more.
	HandOver() (ended <-chan struct{})
}

// Notifier notifies systemd of the state of the loop.
type Notifier interface {
	Ready()
	Reloading()
}

// Dependencies are the parameters of a Loop.
type Dependencies struct {
	Log *slog.Logger
	// RecordChange receives each VIP that the host gained or lost, for the journal. It
	// must not block.
	RecordChange func(changelog.Entry)
	Tracker      *tracker.Tracker
	Addresses    Addresses
	Files        Files
	Table        Table
	Proxy        Proxy
	Loopback     LoopbackAddresses
	Notifier     Notifier
	Reload       <-chan os.Signal // each value requests a reload
	Heartbeat    func()           // called every 5 s while the loop waits, and after each pass
	// Observed receives an Observation after each pass with a configuration. It must not block.
	Observed func(Observation)
	// Save queues the write of a file in the state directory for another goroutine, because
	// an fsync can take seconds. event is the journal event of a failed write.
	Save func(event, name string, write func() error)
	// SuccessorExpected reports at the end of the loop whether another process of this
	// service may start. If so, the loop keeps listeners and table for it. It can take a
	// second; the loop follows the addresses meanwhile.
	SuccessorExpected func() bool
	Inherited         Inherited // from the previous process

	config.HostPaths
	UnitsDir     string                              // see microshift.UnitsDir
	DefaultLinks func() (v4, v6 []uint32, err error) // see route.DefaultLinks
}

// Inherited is what the previous process left for this one.
type Inherited struct {
	Port  uint16 // of the listener; 0: no listener
	Table bool   // the service's table exists
}

// Observation is what a pass reports to other parts of the service: the active configuration, the API
// VIPs with their states, and the addresses of this host.
type Observation struct {
	Config      config.Config // with the ports of MicroShift's router and the accepted names; no names: any
	APINames    []string      // of the API, as far as files of this host name them
	APINamesErr error         // why they are unknown
	VIPs        []report.VIP
	Addresses   []address.Address // of this host
	OneHost     bool              // no other host can hold the VIPs: they are MicroShift's node addresses
}

// Loop reconciles the nftables table and the proxy with the configuration,
// keepalived.conf and the addresses. Everything belongs to the goroutine of Run.
type Loop struct {
	Dependencies
	observer    observer
	reader      *fileReader // of the goroutine that reads
	reads       *asyncread.Reader[files]
	errors      changedErrors
	applier     applier
	schedule    schedule
	lastAttempt attempt
	failures    int // consecutive

	loopbackWant []netip.Addr // of the last Ensure
	loopbackNote string       // of the last Ensure, for the message
	vips         []report.VIP // of the last pass

	readySent      bool      // systemd was notified that the service is ready
	inheritedUntil time.Time // startTimeout after the first read

	// HandedOver reports, after Run, that listeners and table remain for the next process.
	HandedOver bool
}

// New returns a loop. It does nothing before Run.
func New(parts Dependencies) *Loop {
	return &Loop{
		Dependencies: parts,
		observer:     observer{source: parts.Addresses, defaultLinks: parts.DefaultLinks},
		reader:       newFileReader(parts),
		reads:        asyncread.New[files](parts.Files.Changed(), resyncInterval, stallTimeout),
		errors:       newChangedErrors(parts.Log),
		applier:      newApplier(parts),
	}
}

// passScope selects what a pass does besides reading the addresses.
type passScope struct {
	files  *asyncread.Result[files] // a read returned, or stalls; nil: neither
	verify bool                     // compare the table in the kernel, and the addresses of lo, with the applied ones
	lo     bool                     // compare the addresses of lo alone
	event  time.Time                // of the address event that started the pass; zero if there was no event
}

// schedule holds the times of the next passes without an event. Events do not delay them.
// The zero time means no pass.
type schedule struct {
	verify        time.Time
	node          time.Time // what causes no event: routes, and addresses on lo
	retry         time.Time // retry a failed attempt
	startDeadline time.Time // notify systemd even if the service does not work
}

// next returns the earliest time.
func (s schedule) next() time.Time {
	first := s.verify
	for _, t := range []time.Time{s.node, s.retry, s.startDeadline} {
		if !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

// due adds the work that is due to w.
func (s schedule) due(w passScope, now time.Time) passScope {
	w.verify = w.verify || !now.Before(s.verify)
	w.lo = w.lo || !s.node.IsZero() && !now.Before(s.node)
	return w
}

// Run reconciles until ctx ends. It then removes listeners and table, or keeps them for
// the next process.
func (l *Loop) Run(ctx context.Context) error {
	defer l.shutDown()
	l.schedule.startDeadline = time.Now().Add(startTimeout)
	l.schedule.verify = time.Now().Add(resyncInterval)
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() { l.reads.Run(ctx) })
	l.startRead(false)
	for {
		w, more := l.waitForWork(ctx)
		if !more {
			return nil
		}
		l.reconcileOnce(l.schedule.due(w, time.Now()))
	}
}

// startRead starts reading the files in another goroutine: now, after each file event and every
// resyncInterval.
func (l *Loop) startRead(reload bool) {
	l.reads.Start(func() (files, time.Duration) {
		requested := reload
		reload = false // only the first of these reads is the one that the administrator requested
		return l.reader.read(time.Now(), requested)
	})
}

// shutDown removes listeners and table, or keeps them for the next process.
func (l *Loop) shutDown() {
	if l.querySuccessor() {
		if err := l.handOver(); err != nil {
			l.Log.Error("cannot keep the table for the next process: connections are refused until it creates a new one",
				slog.String("event", "table"), slog.Any("error", err))
		}
		return
	}
	if err := l.Loopback.Ensure(nil, nil); err != nil {
		l.Log.Error("cannot remove MicroShift's internal API address from lo: run http01-proxyd cleanup",
			slog.String("event", "advertise-address"), slog.Any("error", err))
	}
	if err := l.applier.withdraw(); err != nil {
		l.Log.Error("cannot remove the table: the kernel removes it when this process ends, "+
			"otherwise run http01-proxyd cleanup",
			slog.String("event", "table"), slog.Any("error", err))
	}
}

// querySuccessor returns the result of SuccessorExpected, and redirects the VIPs that arrive
// before it.
func (l *Loop) querySuccessor() (expected bool) {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		expected = l.SuccessorExpected()
	}()
	l.followAddresses(answered)
	return expected
}

// handOver keeps listeners and table for the next process, and waits until the challenges in
// flight end. Without a listener it removes the table. The table is released last,
// because other programs can change it from then on.
func (l *Loop) handOver() error {
	if l.applier.port == 0 {
		return l.applier.withdraw()
	}
	l.followAddresses(l.Proxy.HandOver())
	l.followOnce() // no VIP that arrived before Retain waits for the next process
	err := l.Table.Retain()
	l.HandedOver = err == nil
	return err
}

// followAddresses redirects the VIPs that arrive until ended is closed. During a hand-over
// their connections are queued too.
func (l *Loop) followAddresses(ended <-chan struct{}) {
	pulse := time.NewTicker(heartbeatInterval)
	defer pulse.Stop()
	for {
		l.Heartbeat()
		select {
		case <-ended:
			return
		case <-l.Addresses.Changed():
			l.followOnce()
		case <-pulse.C:
		}
	}
}

// followOnce reads the addresses and applies their VIPs to the table.
func (l *Loop) followOnce() {
	s, err := l.observer.observe()
	l.logAddressError(err)
	if err != nil {
		return
	}
	p := decide(s)
	followed, err := l.applier.follow(p)
	if err != nil {
		l.Log.Error("cannot apply the VIPs of this host to the table: the next process will",
			slog.String("event", "table"), slog.Any("error", err))
	}
	if followed {
		l.setVIPs(p.reportVIPs())
	}
}

func (l *Loop) logAddressError(err error) {
	l.errors.logOnChange("address", "cannot read the addresses of this host; the last ones stay in use", err)
}

// waitForWork waits until a pass is due, and sends heartbeats meanwhile. It returns
// false when ctx ended.
func (l *Loop) waitForWork(ctx context.Context) (passScope, bool) {
	timer := time.NewTimer(time.Until(l.schedule.next()))
	defer timer.Stop()
	pulse := time.NewTicker(heartbeatInterval)
	defer pulse.Stop()
	for {
		l.Heartbeat()
		select {
		case <-ctx.Done():
			return passScope{}, false
		case <-l.Addresses.Changed():
			return passScope{event: l.Addresses.TakeEventTime()}, true
		case r := <-l.reads.Results():
			return passScope{files: &r}, true
		case <-l.Reload:
			l.startRead(true)
		case <-timer.C:
			return passScope{}, true
		case <-pulse.C:
		}
	}
}

// reconcileOnce performs one pass.
func (l *Loop) reconcileOnce(w passScope) {
	now := time.Now()
	reloading := w.files != nil && l.takeFiles(*w.files)
	if !l.observer.observation.read {
		l.awaitFirstRead(now)
		return
	}
	if w.verify {
		l.schedule.verify = now.Add(resyncInterval)
		l.errors.logOnChange("table", "cannot compare the table in the kernel with the applied one", l.applier.verify())
	}
	s, err := l.observer.observe()
	if l.deferUntilObserved(s, err, now) {
		return
	}
	l.logAddressError(err)
	p := decide(s)
	c := p.WithRouterPorts(s.config)
	c.Hosts = s.acceptedHosts.Names
	a := l.applyPlan(attempt{config: c, plan: p}, reloading, now)
	if err != nil {
		l.schedule.retry = now.Add(maxRetryDelay)
	}
	loopbackNote := l.updateLoopback(s, w.verify || w.lo || w.files != nil)
	l.scheduleNode(s, loopbackNote != "", now)
	l.recordRuleDelay(w.event, p)
	l.publish(p, a.reason, a.message+loopbackNote)
	if s.configKnown {
		l.Observed(Observation{
			Config: c, APINames: s.apiNames, APINamesErr: s.apiNamesErr, VIPs: l.vips, Addresses: s.addresses,
			OneHost: s.isMicroShift(),
		})
	}
	l.notifyManager(a.ok && err == nil && a.reason != report.NoVIPs && s.configKnown, reloading)
}

// awaitFirstRead changes nothing on this host. After startTimeout it notifies systemd, and the state reports
// a read that stalls.
func (l *Loop) awaitFirstRead(now time.Time) {
	l.schedule.verify = now.Add(resyncInterval)
	if s := l.observer.observation; s.configErr != nil {
		l.publish(decide(s), report.InvalidConfig, "")
	}
	l.notifyManager(false, false)
}

// scheduleNode schedules a pass for a new default route and for the end of a collision on lo, which cause no
// event.
func (l *Loop) scheduleNode(s observation, collision bool, now time.Time) {
	needed := s.isMicroShift() || s.microShift.Present && s.config.MicroShift.ManageAdvertiseAddress
	missing := needed && errors.Is(s.microShift.ComputeErr, microshift.ErrNoNodeAddress)
	switch {
	case !collision && !missing:
		l.schedule.node = time.Time{}
	case !now.Before(l.schedule.node): // events do not delay it
		l.schedule.node = now.Add(nodeAddressRetry)
	}
}

// deferUntilObserved reports whether the pass must not change what the previous process left,
// because this process does not know everything yet. A keepalived.conf that is being written,
// or addresses that cannot be read, must not refuse connections.
func (l *Loop) deferUntilObserved(s observation, err error, now time.Time) bool {
	if l.Inherited == (Inherited{}) || !now.Before(l.inheritedUntil) || (err == nil && s.complete()) {
		l.Inherited = Inherited{}
		return false
	}
	l.schedule.retry = now.Add(minRetryDelay)
	return true
}

// attempt is a plan and the result of applying it.
type attempt struct {
	config  config.Config
	plan    plan
	reason  report.Reason
	message string
	ok      bool
}

// applyPlan applies a plan. An unchanged plan that failed waits for its retry: many address
// events occur on a busy host, and each attempt costs time.
func (l *Loop) applyPlan(a attempt, reload bool, now time.Time) attempt {
	same := reflect.DeepEqual(a.config, l.lastAttempt.config) && reflect.DeepEqual(a.plan, l.lastAttempt.plan)
	if same && !l.lastAttempt.ok && !reload && now.Before(l.schedule.retry) {
		return l.lastAttempt
	}
	a.reason, a.message, a.ok = l.applier.apply(a.config, a.plan)
	l.lastAttempt = a
	l.scheduleRetry(a.ok, now)
	return a
}

// takeFiles takes the result of a read. It reports whether that is a reload, of which it notified
// systemd. While a read stalls, the last good files stay in use.
func (l *Loop) takeFiles(r asyncread.Result[files]) (reloading bool) {
	f, first := r.Value, !l.observer.observation.read
	if r.Stalled {
		if first {
			f.configState = report.Config{Source: sourceNone, Path: l.ConfigPath}
		}
		f.reload = ""
		f.configErr = fmt.Errorf("reading %s, or a file that it names, has not finished after %v: "+
			"check the file systems of these files", l.ConfigPath, stallTimeout)
		f.configState.Error = f.configErr.Error()
	}
	l.observer.setFiles(f)
	if first {
		l.inheritedUntil = time.Now().Add(startTimeout)
		return false
	}
	if f.reload == "" || !l.readySent {
		return false
	}
	l.Notifier.Reloading()
	l.Tracker.CountEvents(func(e *report.Events) { e.Reloads[f.reload]++ })
	return true
}

// scheduleRetry sets the time of the retry of a failed attempt.
func (l *Loop) scheduleRetry(ok bool, now time.Time) {
	if ok {
		l.failures, l.schedule.retry = 0, time.Time{}
		return
	}
	l.schedule.retry = now.Add(retryDelay(l.failures))
	l.failures++
}

// notifyManager notifies systemd that the start or a reload is complete.
func (l *Loop) notifyManager(ok, reloading bool) {
	over := ok || !time.Now().Before(l.schedule.startDeadline)
	if reloading || (!l.readySent && over) {
		l.readySent, l.schedule.startDeadline = true, time.Time{}
		l.Notifier.Ready()
	}
}

// retryDelay returns the delay after a failure; failures is the number of failures
// before it.
func retryDelay(failures int) time.Duration {
	return min(minRetryDelay<<min(failures, 10), maxRetryDelay)
}
