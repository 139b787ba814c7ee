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
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// lookAgain is how often everything is read anew without an event: netlink
	// and inotify may lose some.
	lookAgain = 30 * time.Second

	// heartbeat is how often an idle loop shows that it lives.
	heartbeat = 5 * time.Second

	// firstRetry and lastRetry bound the wait after a failure; it doubles.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second

	// readyGrace is how long a start may take to get into working order before
	// it counts as over. From then on the service is up but not working, says
	// so in its status and keeps trying: a unit that never became ready would
	// be killed and started over and over, and could not tell anybody why.
	readyGrace = 2 * time.Second

	// drainTime is how long challenges in flight get when the door closes.
	drainTime = 5 * time.Second
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
	Leave() error
}

// Door is the front door's side.
type Door interface {
	// Configure sets the rules for requests and where they are led.
	Configure(c config.Config, ingress []netip.Addr)
	// Open listens on a port, beside any other. It does nothing when that
	// port is open already.
	Open(port uint16) error
	// Settle closes every port but this one, as soon as what waits in their
	// backlogs has been served.
	Settle(port uint16)
	// Close closes every port and waits for the challenges in flight; those
	// that are not over when ctx ends are cut off.
	Close(ctx context.Context)
	// Suspend is Close, but that who connects from then on waits for the next
	// process of this service. Nothing else is called after it.
	Suspend(ctx context.Context)
}

// Announcer tells the service manager how far the loop is.
type Announcer interface {
	Ready()
	Reloading()
}

// Parts are what a Loop works with. All but Drain are required.
type Parts struct {
	Log       *slog.Logger
	Board     *report.Board
	Addresses Addresses
	Files     Files
	Table     Table
	Door      Door
	Internal  Internal
	Announcer Announcer
	Beat      func() // called at least every 5 s while the loop lives
	Moved     func() // called when this host has gained or lost an API VIP
	// Configured is called with the configuration in force, if there is one, at
	// each look.
	Configured func(config.Config)
	// Followed is asked when the loop ends, whether another process of this
	// service may follow, to which it leaves door and table then.
	Followed func() bool
	Left     Left          // to this process by a former one
	Drain    time.Duration // for challenges in flight when the door closes; 0: drainTime

	ConfigPath        string
	StateDir          string
	Manifests         string // kubelet's folder of static pods
	DisabledManifests string // and of those that were put aside
	Routes            string // where the kernel lists its routes: /proc/net
	Units             string // where systemd tells of units' starts: see microshift.Units
	MicroShift        string // where MicroShift's configuration is as a rule, whatever directory is given
}

// Left is what a process that bridges has left behind.
type Left struct {
	Port  uint16 // on which the door is open; 0: it is closed
	Table bool   // one of ours stands
}

// Loop keeps the host in line with configuration, keepalived.conf and
// addresses. Everything but Reload belongs to the goroutine of Run.
type Loop struct {
	Parts
	reload   chan struct{}
	eyes     eyes
	hands    hands
	agenda   agenda
	last     attempt
	failures int // of attempts in a row

	advertised advertised

	ready bool // the manager has been told

	// Suspended says, after Run, that door and table are left to the next process.
	Suspended bool
}

// New returns a loop over parts. It does nothing before Run.
func New(parts Parts) *Loop {
	return &Loop{
		Parts:  parts,
		reload: make(chan struct{}, 1),
		eyes:   newEyes(parts),
		hands:  newHands(parts),
	}
}

// Reload asks for a reload, as SIGHUP does.
func (l *Loop) Reload() {
	select {
	case l.reload <- struct{}{}:
	default: // one is due already
	}
}

// wake is what a pass has to do besides looking at the addresses.
type wake struct {
	files  bool // read the files
	reload bool // the manager asked for it
	verify bool // compare the kernel's table with what should be there
}

// agenda is when to do what without an event. Events come in between; they do
// not put off what is due. The zero time is no appointment.
type agenda struct {
	look  time.Time // at everything
	files time.Time
	retry time.Time // what has failed
	ready time.Time // the start counts as over
}

// next is the first appointment.
func (a agenda) next() time.Time {
	first := a.look
	for _, t := range []time.Time{a.files, a.retry, a.ready} {
		if !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

// due adds to w what is to be done by now.
func (a agenda) due(w wake, now time.Time) wake {
	all := !now.Before(a.look)
	w.verify = w.verify || all
	w.files = w.files || all || (!a.files.IsZero() && !now.Before(a.files))
	return w
}

// Run looks and acts until ctx ends, and then takes everything away again, or
// leaves it to the next process.
func (l *Loop) Run(ctx context.Context) error {
	defer l.leave(ctx)
	l.agenda.ready = time.Now().Add(readyGrace)
	w := wake{files: true}
	for {
		w = l.agenda.due(w, time.Now())
		l.pass(ctx, w)
		var alive bool
		if w, alive = l.wait(ctx); !alive {
			return nil
		}
	}
}

// leave takes everything away, or leaves it to the next process. That takes its
// time after ctx has ended.
func (l *Loop) leave(ctx context.Context) {
	if l.Followed() {
		var err error
		if l.Suspended, err = l.hands.suspend(ctx); err != nil {
			l.Log.Error("cannot leave the table to the next run, which makes a new one: connections that come before are refused",
				slog.String("event", "table"), slog.Any("error", err))
		}
		return
	}
	if err := l.Internal.Keep(nil, nil); err != nil {
		l.Log.Error("cannot take from lo what was put there; http01-proxyd cleanup does",
			slog.String("event", "advertise-address"), slog.Any("error", err))
	}
	if err := l.hands.withdraw(ctx); err != nil {
		l.Log.Error("cannot remove the table; if the kernel does not when this process ends, http01-proxyd cleanup does",
			slog.String("event", "table"), slog.Any("error", err))
	}
}

// wait sleeps until there is a reason for a pass, and shows meanwhile that the
// loop lives. It reports false when ctx has ended.
func (l *Loop) wait(ctx context.Context) (wake, bool) {
	timer := time.NewTimer(time.Until(l.agenda.next()))
	defer timer.Stop()
	pulse := time.NewTicker(heartbeat)
	defer pulse.Stop()
	for {
		l.Beat()
		select {
		case <-ctx.Done():
			return wake{}, false
		case <-l.Addresses.Changed():
			return wake{}, true
		case <-l.Files.Changed():
			return wake{files: true}, true
		case <-l.reload:
			return wake{files: true, reload: true}, true
		case <-timer.C:
			return wake{}, true
		case <-pulse.C:
		}
	}
}

// pass looks, decides and acts once.
func (l *Loop) pass(ctx context.Context, w wake) {
	now := time.Now()
	reloading := w.files && l.readFiles(w.reload, now)
	if w.verify {
		l.agenda.look = now.Add(lookAgain)
		l.hands.verify()
	}
	s, err := l.eyes.look()
	if l.waitsForSight(s, err, now) {
		return
	}
	l.eyes.complain("address", "cannot read this host's addresses; the last ones stay in force", err)
	p := decide(s)
	c := p.lead(s.config)
	if s.configKnown {
		l.Configured(c)
	}
	a := l.act(ctx, attempt{config: c, plan: p}, w.reload, now)
	if err != nil {
		l.agenda.retry = now.Add(lastRetry)
	}
	said := l.advertise(s, w.verify || w.files)
	if s.needsNodeAddress() && errors.Is(s.microShift.err, microshift.ErrNoNodeAddress) || len(l.advertised.heldBack) > 0 {
		if again := now.Add(routeAgain); l.agenda.files.IsZero() || again.Before(l.agenda.files) {
			l.agenda.files = again
		}
	}
	l.publish(p, a.reason, a.message+said)
	l.announce(a.ok && err == nil && a.reason != report.NoVIPs && s.configKnown, reloading)
}

// waitsForSight leaves what a former process has left as it is while this one
// has not seen the host yet: a keepalived.conf that is being written just now, or
// a list of addresses that could not be had, must not refuse connections.
func (l *Loop) waitsForSight(s sight, err error, now time.Time) bool {
	if l.Left == (Left{}) || !now.Before(l.agenda.ready) || (err == nil && s.clear()) {
		l.Left = Left{}
		return false
	}
	l.agenda.retry = now.Add(firstRetry)
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

// act puts a plan into force. What has failed and has not changed since waits
// for its next try: a busy host has many address events, and a try costs.
func (l *Loop) act(ctx context.Context, a attempt, asked bool, now time.Time) attempt {
	same := reflect.DeepEqual(a.config, l.last.config) && reflect.DeepEqual(a.plan, l.last.plan)
	if same && !l.last.ok && !asked && now.Before(l.agenda.retry) {
		return l.last
	}
	a.reason, a.message, a.ok = l.hands.apply(ctx, a.config, a.plan)
	l.last = a
	l.schedule(a.ok, now)
	return a
}

// readFiles reads the configuration and what it points to, and reports whether
// that is a reload, which has been announced then.
func (l *Loop) readFiles(asked bool, now time.Time) (reloading bool) {
	changed, settling := l.eyes.configuration.look(now, asked)
	reloading = l.ready && (changed || asked)
	if reloading {
		l.Announcer.Reloading()
	}
	switch {
	case changed:
		l.eyes.configuration.take()
	case asked:
		l.eyes.configuration.logUnchanged()
	}
	if reloading {
		l.Board.Reloaded(l.eyes.configuration.result(changed))
	}
	l.agenda.files = time.Time{}
	if again := soonest(settling, l.eyes.readFiles(now)); again > 0 {
		l.agenda.files = now.Add(again)
	}
	return reloading
}

// schedule plans the retry of what has failed.
func (l *Loop) schedule(ok bool, now time.Time) {
	if ok {
		l.failures, l.agenda.retry = 0, time.Time{}
		return
	}
	l.agenda.retry = now.Add(backOff(l.failures))
	l.failures++
}

// announce tells the manager that a reload is over or the start is.
func (l *Loop) announce(ok, reloading bool) {
	over := ok || !time.Now().Before(l.agenda.ready)
	if reloading || (!l.ready && over) {
		l.ready, l.agenda.ready = true, time.Time{}
		l.Announcer.Ready()
	}
}

// backOff is the wait after the given number of failures before this one.
func backOff(failures int) time.Duration {
	return min(firstRetry<<min(failures, 10), lastRetry)
}

// soonest is the shorter of two waits, of which 0 means none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
