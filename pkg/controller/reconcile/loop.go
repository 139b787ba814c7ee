// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"reflect"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// resyncInterval is how often everything is read anew without an event: netlink
	// and inotify may lose some.
	resyncInterval = 30 * time.Second

	// heartbeatInterval is how often an idle loop shows that it lives.
	heartbeatInterval = 5 * time.Second

	// minRetryDelay and maxRetryDelay bound the wait after a failure; it doubles.
	minRetryDelay = 100 * time.Millisecond
	maxRetryDelay = 5 * time.Second

	// startTimeout is how long a start may take to get into working order before
	// it counts as over. From then on the service is up but not working, says
	// so in its status and keeps trying: a unit that never became ready would
	// be killed and started over and over, and could not tell anybody why.
	startTimeout = 2 * time.Second

	// defaultDrainTimeout is how long challenges in flight get when the door closes.
	defaultDrainTimeout = 5 * time.Second
)

// Addresses tells which addresses this host has, and when that may have
// changed.
type Addresses interface {
	Snapshot() ([]address.Address, error)
	Links() ([]address.Link, error)
	Changed() <-chan struct{}
}

// Files hints that a watched file may have changed.
type Files interface {
	Watch(paths ...string)
	Changed() <-chan struct{}
}

// Table is the kernel's side. Apply puts a whole table in force in one step.
type Table interface {
	Apply(t ruleset.Table) error
	// Verify compares what stands in the kernel with what was applied. When it
	// differs, err says how and the next Apply puts it right; otherwise an err
	// says why the kernel could not be asked.
	Verify() (differs bool, err error)
	Remove() error
	// Leave lets the table stand as it is, for the next process of this service.
	// Nothing else is called after it.
	Retain() error
}

// Proxy is the front door's side.
type Proxy interface {
	// Configure sets the rules for requests and where they are led.
	Configure(c config.Config, ingress []netip.Addr)
	// Open listens on a port, beside any other. It does nothing when that
	// port is open already.
	Open(port uint16) error
	// Settle closes every port but this one, as soon as what waits in their
	// backlogs has been served.
	CloseExcept(port uint16)
	// Close closes every port and waits for the challenges in flight; those
	// that are not over when ctx ends are cut off.
	Close(ctx context.Context)
	// Suspend is Close, but that who connects from then on waits for the next
	// process of this service. Nothing else is called after it.
	HandOver(ctx context.Context)
}

// Notifier tells the service manager how far the loop is.
type Notifier interface {
	Ready()
	Reloading()
}

// Dependencies are what a Loop works with. All but Drain are required.
type Dependencies struct {
	Log       *slog.Logger
	Tracker   *tracker.Tracker
	Addresses Addresses
	Files     Files
	Table     Table
	Proxy     Proxy
	Loopback  LoopbackAddresses
	Notifier  Notifier
	Heartbeat func() // called at least every 5 s while the loop lives
	// Observed gets what each pass has seen, after the pass. It must not block.
	Observed func(Observation)
	// OnConfig gets the configuration in force, with the ports of the ingress routers,
	// when it differs from the last call. It must not block.
	OnConfig func(config.Config)
	// Save has a file of the state directory written in another goroutine: an fsync can
	// take seconds. event is the journal's, if that fails.
	Save func(event, name string, write func() error)
	// Followed is asked when the loop ends, whether another process of this
	// service may follow, to which it leaves door and table then.
	SuccessorExpected func() bool
	Inherited         Inherited     // to this process by a former one
	DrainTimeout      time.Duration // for challenges in flight when the door closes; 0: defaultDrainTimeout

	ConfigPath           string
	StateDir             string
	StaticPodDir         string // kubelet's folder of static pods
	DisabledStaticPodDir string // and of those that were put aside
	ProcNetDir           string // where the kernel lists its routes: /proc/net
	UnitsDir             string // where systemd tells of units' starts: see microshift.Units
	DefaultMicroShiftDir string // where DefaultMicroShiftDir's configuration is as a rule, whatever directory is given
}

// Inherited is what a process that bridges has left behind.
type Inherited struct {
	Port  uint16 // on which the door is open; 0: it is closed
	Table bool   // one of ours stands
}

// Observation is what one pass has seen, for other parts of the service.
type Observation struct {
	VIPs      []report.VIP
	Addresses []ownership.Address // of this host
}

// Loop keeps the host in line with configuration, keepalived.conf and
// addresses. Everything but Reload belongs to the goroutine of Run.
type Loop struct {
	Dependencies
	reload      chan struct{}
	observer    observer
	applier     applier
	schedule    schedule
	lastAttempt attempt
	failures    int // of attempts in a row

	loopback loopbackState
	vips     []report.VIP   // of the last pass
	config   *config.Config // of the last call of OnConfig

	readySent bool // the manager has been told

	// Suspended says, after Run, that door and table are left to the next process.
	HandedOver bool
}

// New returns a loop over parts. It does nothing before Run.
func New(parts Dependencies) *Loop {
	return &Loop{
		Dependencies: parts,
		reload:       make(chan struct{}, 1),
		observer:     newObserver(parts),
		applier:      newApplier(parts),
	}
}

// Reload asks for a reload, as SIGHUP does.
func (l *Loop) Reload() {
	select {
	case l.reload <- struct{}{}:
	default: // one is due already
	}
}

// passScope is what a pass has to do besides looking at the addresses.
type passScope struct {
	files  bool // read the files
	reload bool // the manager asked for it
	verify bool // compare the kernel's table with what should be there
}

// schedule is when to do what without an event. Events come in between; they do
// not put off what is due. The zero time is no appointment.
type schedule struct {
	fullRead      time.Time // at everything
	files         time.Time
	retry         time.Time // what has failed
	startDeadline time.Time // the start counts as over
}

// next is the first appointment.
func (a schedule) next() time.Time {
	first := a.fullRead
	for _, t := range []time.Time{a.files, a.retry, a.startDeadline} {
		if !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

// due adds to w what is to be done by now.
func (a schedule) due(w passScope, now time.Time) passScope {
	all := !now.Before(a.fullRead)
	w.verify = w.verify || all
	w.files = w.files || all || (!a.files.IsZero() && !now.Before(a.files))
	return w
}

// Run looks and acts until ctx ends, and then takes everything away again, or
// leaves it to the next process.
func (l *Loop) Run(ctx context.Context) error {
	defer l.shutDown(ctx)
	l.schedule.startDeadline = time.Now().Add(startTimeout)
	w := passScope{files: true}
	for {
		w = l.schedule.due(w, time.Now())
		l.reconcileOnce(ctx, w)
		var alive bool
		if w, alive = l.waitForWork(ctx); !alive {
			return nil
		}
	}
}

// shutDown takes everything away, or leaves it to the next process. That takes its
// time after ctx has ended.
func (l *Loop) shutDown(ctx context.Context) {
	if l.SuccessorExpected() {
		var err error
		if l.HandedOver, err = l.applier.handOver(ctx); err != nil {
			l.Log.Error("cannot leave the table to the next run, which makes a new one: connections that come before are refused",
				slog.String("event", "table"), slog.Any("error", err))
		}
		return
	}
	if err := l.Loopback.Ensure(nil, nil); err != nil {
		l.Log.Error("cannot take from lo what was put there; http01-proxyd cleanup does",
			slog.String("event", "advertise-address"), slog.Any("error", err))
	}
	if err := l.applier.withdraw(ctx); err != nil {
		l.Log.Error("cannot remove the table; if the kernel does not when this process ends, http01-proxyd cleanup does",
			slog.String("event", "table"), slog.Any("error", err))
	}
}

// waitForWork sleeps until there is a reason for a pass, and shows meanwhile that the
// loop lives. It reports false when ctx has ended.
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
			return passScope{}, true
		case <-l.Files.Changed():
			return passScope{files: true}, true
		case <-l.reload:
			return passScope{files: true, reload: true}, true
		case <-timer.C:
			return passScope{}, true
		case <-pulse.C:
		}
	}
}

// advance looks, decides and acts once.
func (l *Loop) reconcileOnce(ctx context.Context, w passScope) {
	now := time.Now()
	reloading := w.files && l.readFiles(w.reload, now)
	if w.verify {
		l.schedule.fullRead = now.Add(resyncInterval)
		l.applier.verify()
	}
	s, err := l.observer.observe()
	if l.deferUntilObserved(s, err, now) {
		return
	}
	l.observer.logOnChange("address", "cannot read this host's addresses; the last ones stay in force", err)
	p := decide(s)
	c := p.withRouterPorts(s.config)
	if s.configKnown && (l.config == nil || !reflect.DeepEqual(*l.config, c)) {
		l.config = &c
		l.OnConfig(c)
	}
	a := l.applyPlan(ctx, attempt{config: c, plan: p}, w.reload, now)
	if err != nil {
		l.schedule.retry = now.Add(maxRetryDelay)
	}
	said := l.updateLoopback(s, w.verify || w.files)
	if s.needsNodeAddress() && errors.Is(s.microShift.err, microshift.ErrNoNodeAddress) || len(l.loopback.withheld) > 0 {
		if again := now.Add(nodeAddressRetry); l.schedule.files.IsZero() || again.Before(l.schedule.files) {
			l.schedule.files = again
		}
	}
	l.publish(p, a.reason, a.message+said)
	l.Observed(Observation{VIPs: l.vips, Addresses: s.addresses})
	l.notifyManager(a.ok && err == nil && a.reason != report.NoVIPs && s.configKnown, reloading)
}

// deferUntilObserved leaves what a former process has left as it is while this one
// has not seen the host yet: a keepalived.conf that is being written just now, or
// a list of addresses that could not be had, must not refuse connections.
func (l *Loop) deferUntilObserved(s observation, err error, now time.Time) bool {
	if l.Inherited == (Inherited{}) || !now.Before(l.schedule.startDeadline) || (err == nil && s.complete()) {
		l.Inherited = Inherited{}
		return false
	}
	l.schedule.retry = now.Add(minRetryDelay)
	return true
}

// attempt is a plan, and what came of putting it into force.
type attempt struct {
	config  config.Config
	plan    plan
	reason  report.Reason
	message string
	ok      bool
}

// applyPlan puts a plan into force. What has failed and has not changed since waits
// for its next try: a busy host has many address events, and a try costs.
func (l *Loop) applyPlan(ctx context.Context, a attempt, asked bool, now time.Time) attempt {
	same := reflect.DeepEqual(a.config, l.lastAttempt.config) && reflect.DeepEqual(a.plan, l.lastAttempt.plan)
	if same && !l.lastAttempt.ok && !asked && now.Before(l.schedule.retry) {
		return l.lastAttempt
	}
	a.reason, a.message, a.ok = l.applier.apply(ctx, a.config, a.plan)
	l.lastAttempt = a
	l.scheduleRetry(a.ok, now)
	return a
}

// readFiles reads the configuration and what it points to, and reports whether
// that is a reload, which has been announced then.
func (l *Loop) readFiles(asked bool, now time.Time) (reloading bool) {
	changed, settling := l.observer.configuration.read(now, asked)
	reloading = l.readySent && (changed || asked)
	if reloading {
		l.Notifier.Reloading()
	}
	switch {
	case changed:
		l.observer.configuration.evaluate()
	case asked:
		l.observer.configuration.logUnchanged()
	}
	if reloading {
		l.Tracker.CountReload(l.observer.configuration.reloadResult(changed))
	}
	l.schedule.files = time.Time{}
	if again := ShorterWait(settling, l.observer.readFiles(now)); again > 0 {
		l.schedule.files = now.Add(again)
	}
	return reloading
}

// scheduleRetry plans the retry of what has failed.
func (l *Loop) scheduleRetry(ok bool, now time.Time) {
	if ok {
		l.failures, l.schedule.retry = 0, time.Time{}
		return
	}
	l.schedule.retry = now.Add(retryDelay(l.failures))
	l.failures++
}

// notifyManager tells the manager that a reload is over or the start is.
func (l *Loop) notifyManager(ok, reloading bool) {
	over := ok || !time.Now().Before(l.schedule.startDeadline)
	if reloading || (!l.readySent && over) {
		l.readySent, l.schedule.startDeadline = true, time.Time{}
		l.Notifier.Ready()
	}
}

// retryDelay is the wait after the given number of failures before this one.
func retryDelay(failures int) time.Duration {
	return min(minRetryDelay<<min(failures, 10), maxRetryDelay)
}

// ShorterWait returns the shorter of two waits, of which 0 means none.
func ShorterWait(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
