// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
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
	Verify() error
	Remove() error
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
}

// Announcer tells the service manager how far the loop is.
type Announcer interface {
	Ready()
	Reloading()
}

// Parts are what a Loop works with. All are required.
type Parts struct {
	Log       *slog.Logger
	Board     *status.Board
	Addresses Addresses
	Files     Files
	Table     Table
	Door      Door
	Announcer Announcer
	Beat      func() // called at least every 5 s while the loop lives
	Moved     func() // called when this host has gained or lost an API VIP

	ConfigPath        string
	StateDir          string
	Manifests         string // kubelet's folder of static pods
	DisabledManifests string // and of those that were put aside
}

// Loop keeps the host in line with configuration, keepalived.conf and
// addresses. Everything but Reload belongs to the goroutine of Run.
type Loop struct {
	Parts
	reload  chan struct{}
	eyes    eyes
	hands   hands
	ready   bool
	started time.Time
}

// New returns a loop over parts. It does nothing before Run.
func New(parts Parts) *Loop {
	return &Loop{
		Parts:  parts,
		reload: make(chan struct{}, 1),
		eyes:   newEyes(parts),
		hands:  hands{log: parts.Log, table: parts.Table, door: parts.Door},
	}
}

// Reload asks for a reload, as SIGHUP does.
func (l *Loop) Reload() {
	select {
	case l.reload <- struct{}{}:
	default: // one is due already
	}
}

// wake is why a pass happens.
type wake struct {
	files  bool // read the files, not the addresses alone
	reload bool // the manager asked for it
	verify bool // compare the kernel's table with what should be there
}

// Run looks and acts until ctx ends, and then takes everything away again.
func (l *Loop) Run(ctx context.Context) error {
	// What is taken away takes its time after ctx has ended.
	defer l.hands.withdraw(context.WithoutCancel(ctx))
	l.started = time.Now()
	w := wake{files: true}
	failures := 0
	for {
		ok, again := l.pass(ctx, w)
		if ok {
			failures = 0
		} else {
			again = soonest(again, backOff(failures))
			failures++
		}
		if !l.ready {
			again = soonest(again, max(time.Until(l.started.Add(readyGrace)), time.Millisecond))
		}
		var alive bool
		if w, alive = l.wait(ctx, again); !alive {
			return nil
		}
	}
}

// wait sleeps until there is a reason for a pass, and shows meanwhile that the
// loop lives. It reports false when ctx has ended.
func (l *Loop) wait(ctx context.Context, again time.Duration) (wake, bool) {
	timer := time.NewTimer(soonest(again, lookAgain))
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
			return wake{files: true, verify: true}, true
		case <-pulse.C:
		}
	}
}

// pass looks, decides and acts once. It reports whether all is in order, and
// after how long to look again without an event; 0 is no wish.
func (l *Loop) pass(ctx context.Context, w wake) (ok bool, again time.Duration) {
	reloading := false
	if w.files {
		changed := l.eyes.configuration.changed()
		reloading = l.ready && (changed || w.reload)
		if reloading {
			l.Announcer.Reloading()
		}
		if changed {
			l.eyes.configuration.take()
		}
		again = l.eyes.readFiles(time.Now())
	}
	if w.verify {
		l.hands.verify()
	}
	s, err := l.eyes.look()
	if err != nil {
		l.Log.Error("cannot read this host's addresses; the last ones stay in force",
			slog.String("event", "address"), slog.Any("error", err))
	}
	p := decide(s)
	reason, message, ok := l.hands.apply(ctx, s.config, p)
	l.publish(p, reason, message)
	ok = ok && err == nil && reason != status.NoVIPs && s.configKnown
	l.announce(ok, reloading)
	return ok, again
}

// announce tells the manager that a reload is over or the start is.
func (l *Loop) announce(ok, reloading bool) {
	if reloading || (!l.ready && (ok || time.Since(l.started) >= readyGrace)) {
		l.ready = true
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
