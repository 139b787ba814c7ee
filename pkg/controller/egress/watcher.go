// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/asyncread"
	"github.com/http01-proxyd/http01-proxyd/internal/filewatch"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// fileReadInterval is when the files are read again without a file event.
	fileReadInterval = 30 * time.Second
	// minLookupInterval bounds how often failed connections to the proxy cause a lookup.
	minLookupInterval = 5 * time.Second
)

// Input is what the watcher decides on.
type Input struct {
	Generation uint64
	Config     config.Config // the active one
	Ingress    []netip.Addr
	Observed   bool           // Config, VIPs and Subnets are known
	VIPs       []netip.Addr   // the API VIPs of this cluster
	Subnets    []netip.Prefix // of this host
}

// Output is the decision for an Input.
type Output struct {
	Generation uint64
	Ready      bool // Egress is known; false before the first lookup
	Egress     ingress.Egress
	Report     report.EgressProxy // the zero value: nothing is known yet
}

// Options are the dependencies of a Watcher.
type Options struct {
	Log              *slog.Logger
	StateDir         string
	ResolvConf       string
	HostsFile        string
	APIServerURLFile string
	SystemCABundles  []string
	StallTimeout     time.Duration // of reading the files
	// Save queues a write in the state directory for another goroutine.
	Save func(event, name string, write func() error)
}

// Watcher decides which ingress addresses are reached through the egress proxy.
type Watcher struct {
	Options

	store   egress.Store
	files   *filewatch.Watcher
	network network
	reads   *asyncread.Reader[contents]
	reader  reader

	// Owned by loop:
	output     func(Output)
	input      Input
	contents   contents // of the last read
	hasRead    bool
	stalled    bool // the read that runs takes longer than StallTimeout
	acceptance acceptance
	probing    *egress.Configuration // nil: no probe runs
	endProbe   context.CancelFunc
	lookingUp  bool
	names      map[string]lookup // of the proxies' names that are in use
	dialFailed bool              // since the last lookup
	nextLookup time.Time         // not before
	failures   int               // of lookups, in a row
	automatic  []string          // the part of the no-proxy list that this host adds
	lastOutput Output
	logged     report.EgressProxy

	running sync.WaitGroup
	results chan func(now time.Time) // each records the result of a probe or lookup
}

// New returns a watcher with the configuration that a former process accepted.
func New(o Options) (*Watcher, error) {
	files, err := filewatch.New(o.Log)
	if err != nil {
		return nil, err
	}
	w := &Watcher{
		Options: o, store: egress.NewStore(o.StateDir), files: files, network: network{o.ResolvConf, o.HostsFile},
		reader: reader{
			watch: files, apiServerURLFile: o.APIServerURLFile, anchorDirs: caAnchorDirs(),
			system: trust.NewSystem(o.SystemCABundles),
		},
		names: make(map[string]lookup), results: make(chan func(time.Time), 1),
		reads: asyncread.New[contents](files.Changed(), fileReadInterval, o.StallTimeout),
	}
	setting, at, err := w.store.Load()
	switch {
	case err == nil:
		w.acceptance.accepted, w.acceptance.acceptedAt = &setting, at
	case !errors.Is(err, fs.ErrNotExist):
		w.Log.Warn("cannot restore the accepted egress proxy", slog.String("event", "egress"), slog.Any("error", err))
	}
	return w, nil
}

// Run passes on a decision for each input, and when anything else changes, until ctx ends.
// dialFailed receives a value when the proxy process failed to connect to an egress proxy.
func (w *Watcher) Run(ctx context.Context, inputs <-chan Input, dialFailed <-chan struct{}, output func(Output)) error {
	w.output = output
	defer w.running.Wait()
	w.running.Go(func() { _ = w.files.Run(ctx) })
	w.running.Go(func() { w.reads.Run(ctx) })
	for {
		var timer <-chan time.Time
		if next := w.startDue(ctx, time.Now()); !next.IsZero() {
			timer = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case in := <-inputs:
			w.apply(in)
		case r := <-w.reads.Results():
			if w.stalled = r.Stalled; !w.stalled {
				w.recordContents(r.Value, time.Now())
			}
		case record := <-w.results:
			record(time.Now())
		case <-dialFailed:
			w.dialFailed = true
		case <-timer:
		}
		w.decide()
	}
}

// apply takes an input. The files are read if the configuration of the egress proxy changed.
func (w *Watcher) apply(in Input) {
	before := w.input
	w.input = in
	if of := in.Config.EgressProxy; in.Observed && (!before.Observed || !before.Config.EgressProxy.Equal(of)) {
		w.reads.Start(func() (contents, time.Duration) { return w.reader.read(of, time.Now()) })
	}
}

func (w *Watcher) recordContents(c contents, now time.Time) {
	if !c.of.Equal(w.input.Config.EgressProxy) {
		return
	}
	w.contents, w.hasRead = c, true
	if c.err != nil {
		w.acceptance.reject(c.err, now)
	} else if w.acceptance.request(c.request, now) {
		w.saveAccepted()
	}
}

// saveAccepted saves the accepted setting for the next start.
func (w *Watcher) saveAccepted() {
	accepted, at := *w.acceptance.accepted, w.acceptance.acceptedAt
	w.Save("egress", "accepted egress proxy", func() error { return w.store.Save(accepted, at) })
}

// startDue starts what is due, and returns when the next job is; the zero time means none.
func (w *Watcher) startDue(ctx context.Context, now time.Time) (next time.Time) {
	due := func(at time.Time) bool {
		if now.Before(at) && (next.IsZero() || at.Before(next)) {
			next = at
		}
		return !now.Before(at)
	}
	if w.probing != nil && (w.probing != w.acceptance.spec || !w.acceptance.pending()) {
		w.endProbe() // its result does not count any more
	}
	if w.probing == nil && w.acceptance.pending() && due(w.acceptance.nextProbe) {
		w.startProbe(ctx)
	}
	missing, stale := w.lookupState()
	if !w.lookingUp && (missing || stale && due(w.nextLookup)) {
		w.startLookup(ctx)
	}
	return next
}

func (w *Watcher) startProbe(ctx context.Context) {
	spec, setting := w.acceptance.spec, *w.acceptance.spec
	automatic, system := w.automatic, w.contents.systemRoots
	bounded, cancel := context.WithCancel(ctx)
	w.probing, w.endProbe = spec, cancel
	w.start(ctx, func() func(time.Time) {
		defer cancel()
		failures := w.network.probe(bounded, setting, automatic, system)
		return func(now time.Time) {
			w.probing = nil
			if w.acceptance.recordProbe(spec, failures, now) {
				w.saveAccepted()
			}
		}
	})
}

func (w *Watcher) startLookup(ctx context.Context) {
	names := slices.Collect(maps.Keys(w.names))
	w.lookingUp, w.dialFailed = true, false
	w.start(ctx, func() func(time.Time) {
		found := w.network.resolve(ctx, names)
		return func(now time.Time) { w.recordLookups(names, found, now) }
	})
}

// start runs query in a new goroutine, and the function that query returns in the goroutine of
// Run.
func (w *Watcher) start(ctx context.Context, query func() (record func(time.Time))) {
	w.running.Go(func() {
		record := query()
		select {
		case w.results <- record:
		case <-ctx.Done():
		}
	})
}

func (w *Watcher) recordLookups(names []string, found []lookup, now time.Time) {
	w.lookingUp = false
	failed := false
	for i, name := range names {
		l := found[i]
		if l.err != nil {
			failed = true
			l.addrs = w.names[name].addrs // the previous ones stay in use
		}
		if _, used := w.names[name]; used {
			w.names[name] = l
		}
	}
	if failed {
		w.nextLookup = now.Add(retryDelay(w.failures))
		w.failures++
		return
	}
	w.nextLookup, w.failures = now.Add(minLookupInterval), 0
}

// lookupState reports whether a name in use was not looked up yet, and whether one must be
// looked up again: nothing else reports a new address of a proxy.
func (w *Watcher) lookupState() (missing, stale bool) {
	for _, l := range w.names {
		missing = missing || !l.done()
		stale = stale || l.err != nil || w.dialFailed
	}
	return missing, stale
}

// done reports whether the address of the name is known, or the reason why there is none.
func (l lookup) done() bool { return len(l.addrs) > 0 || l.err != nil }

// decide passes a decision on if it differs from the last one.
func (w *Watcher) decide() {
	if !w.input.Observed {
		return
	}
	vips := w.input.Config.VIPs
	w.automatic = egress.AutomaticNoProxy(
		vips, slices.Concat(vips.API, w.input.VIPs), w.input.Ingress, w.input.Subnets, w.contents.clusterDomain,
	)
	accepted := w.acceptance.effective()
	routes := egress.ProxiedAddresses(w.input.Config, accepted.Settings, w.input.Ingress, w.automatic)
	w.trackNames(routes)
	missing, _ := w.lookupState()
	read := w.hasRead && w.contents.of.Equal(w.input.Config.EgressProxy)
	// Before the files were read, the proxy and the CAs of this host are unknown. Without an address of the
	// proxy, each challenge would fail. Until then, the last decision stays.
	missing = missing || !read && !w.stalled
	out := Output{Generation: w.input.Generation, Ready: !missing, Egress: w.lastOutput.Egress}
	if !missing {
		addrs := func(name string) []netip.Addr { return w.lookup(name).addrs }
		out.Egress = egress.Decide(routes, addrs, accepted, w.contents.systemRoots)
	}
	if w.hasRead || w.stalled {
		out.Report = w.report(routes)
	}
	if reflect.DeepEqual(out, w.lastOutput) {
		return
	}
	if out.Ready { // before, the routes are not known
		logChanges(w.Log, w.logged, out.Report)
		w.logged = out.Report
	}
	w.lastOutput = out
	w.output(out)
}

// trackNames keeps the addresses of the names of these routes only.
func (w *Watcher) trackNames(routes []egress.ProxiedAddress) {
	next := make(map[string]lookup)
	for _, route := range routes {
		name := route.Proxy.Hostname()
		if _, err := netip.ParseAddr(name); err != nil {
			next[name] = w.names[name]
		}
	}
	w.names = next
}

func (w *Watcher) lookup(name string) lookup {
	if addr, err := netip.ParseAddr(name); err == nil {
		return lookup{addrs: []netip.Addr{addr.Unmap()}}
	}
	return w.names[name]
}
