// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/filewatch"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/reconcile"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/apiname"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// resolveInterval is how often the name of an egress proxy is resolved. After a
	// failure the delay doubles from minResolveBackoff to resolveInterval.
	resolveInterval   = time.Minute
	minResolveBackoff = time.Second
	// subnetRefreshInterval bounds how often changes of this host's subnets count.
	// Addresses of pods change all the time; the host's subnets do not.
	subnetRefreshInterval = 5 * time.Second
	// firstResolutionTimeout is how long settings wait for the addresses of a proxy's
	// name that is new. Without an address, each challenge would fail.
	firstResolutionTimeout = 3 * time.Second
)

// egressWatcher decides which ingress addresses are reached through the egress proxy: it
// reads the files and the configuration, has the readiness endpoints probed, resolves
// the names of proxies, and adds the routes to the settings of the proxy. The prober queries
// the network. Everything but the mailboxes belongs to the goroutine of run.
type egressWatcher struct {
	log              *slog.Logger
	tracker          *tracker.Tracker
	store            egress.Store
	save             saveFunc
	prober           networkProber
	apiServerURLFile string
	files            *filewatch.Watcher
	settings         *mailbox[proxySettings] // with CAs, without routes
	observations     *mailbox[reconcile.Observation]
	next             func(proxySettings) // gets them with routes: the proxy supervisor

	work       activity
	config     config.Config
	configured bool
	target     proxySettings // the last settings that serve
	pending    bool          // target was not passed on yet
	deadline   time.Time     // until which it waits for the first addresses of a name
	passed     proxySettings // what was passed on last

	observed bool
	vips     []netip.Addr   // the API VIPs of this cluster
	subnets  []netip.Prefix // of this host

	file           *egress.File
	ca             *trust.Source
	anchorDirs     []string  // of files that are a part of what the host trusts
	emptySince     time.Time // the file of CAs
	system         *trust.System
	acceptance     egress.Acceptance
	invalidInput   report.EgressInput
	resolutions    map[string]*resolution  // of the names of proxies
	savedAddresses map[string][]netip.Addr // of such names, over restarts
	applied        *appliedEgress          // nil before the first routes
	nextRead       time.Time               // of the files
	nameError      string                  // the last error of reading the API's name
	lastReported   report.EgressProxy
}

// resolution is what is known of a proxy's name.
type resolution struct {
	addrs    []netip.Addr // the last that were found
	err      error        // of the last lookup
	next     time.Time
	backoff  time.Duration // after the next failure
	timedOut bool          // settings do not wait for it any more
}

// settled reports whether the name has an address, or the reason why not is known.
func (r *resolution) settled() bool { return len(r.addrs) > 0 || r.err != nil }

// appliedEgress is what the routes in force were made from.
type appliedEgress struct {
	egress  config.EgressProxy
	setting egress.Configuration
}

func newEgressWatcher(o Options, tracker *tracker.Tracker, save saveFunc, next func(proxySettings)) (*egressWatcher, error) {
	files, err := filewatch.New(o.Log, fileDebounce)
	if err != nil {
		return nil, err
	}
	e := &egressWatcher{
		log: o.Log, tracker: tracker, store: egress.NewStore(o.StateDir), save: save, next: next,
		prober: childNetworkProber{o.ResolvConf, o.HostsFile}, apiServerURLFile: o.APIServerURLFile, files: files,
		settings: newMailbox[proxySettings](), observations: newMailbox[reconcile.Observation](),
		system: trust.NewSystem(o.SystemCABundles), anchorDirs: caAnchorDirs(), resolutions: make(map[string]*resolution),
		savedAddresses: make(map[string][]netip.Addr),
	}
	setting, at, err := e.store.Load()
	switch {
	case err == nil:
		e.acceptance.Restore(setting, at)
	case !errors.Is(err, fs.ErrNotExist):
		e.log.Warn("cannot restore the accepted egress proxy", slog.String("event", "egress"), slog.Any("error", err))
	}
	last, err := e.store.LoadAddresses()
	switch {
	case err == nil && last != nil:
		e.savedAddresses = last
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		e.log.Warn("cannot restore the last addresses of the egress proxy", slog.String("event", "egress"), slog.Any("error", err))
	}
	return e, nil
}

// apply takes the configuration and, if it serves, the settings to pass on. The files are
// read if the configuration of the egress proxy has changed.
func (w *egressWatcher) apply(s proxySettings, now time.Time) {
	changed := !w.configured || !w.config.EgressProxy.Equal(s.config.EgressProxy)
	w.config, w.configured = s.config, true
	switch {
	case s.serving:
		w.pending = w.pending || s.generation != w.target.generation
		w.target = s
	case w.target.serving:
		w.target.cas = s.cas
	default: // for the report
		w.target.config = s.config
	}
	if !changed {
		w.publish(now)
		return
	}
	if w.file == nil || w.file.Path() != w.config.EgressProxy.File {
		w.file = egress.NewFile(w.config.EgressProxy.File)
	}
	if w.ca == nil || w.ca.Path() != w.config.EgressProxy.TrustedCA {
		w.ca = trust.NewSource(w.config.EgressProxy.TrustedCA, trust.LastGoodCopy{})
	}
	w.files.Watch(append([]string{w.config.EgressProxy.File, w.config.EgressProxy.TrustedCA}, w.system.Paths()...)...)
	w.readFiles(now, true)
}

// observe takes what the reconcile loop has seen: addresses that are never reached through
// a proxy.
func (w *egressWatcher) observe(o reconcile.Observation, now time.Time) {
	var vips []netip.Addr
	for _, v := range o.VIPs {
		vips = append(vips, v.Address)
	}
	var subnets []netip.Prefix
	for _, a := range o.Addresses {
		subnets = append(subnets, netip.PrefixFrom(a.IP, a.Bits))
	}
	first, sameVIPs, sameSubnets := !w.observed, slices.Equal(vips, w.vips), slices.Equal(subnets, w.subnets)
	w.observed, w.vips, w.subnets = true, vips, subnets
	switch {
	case first || !sameVIPs:
		w.publish(now)
	case !sameSubnets:
		w.readWithin(now, subnetRefreshInterval)
	}
}

// pass passes the settings on with the routes, except while they wait for the first
// addresses of a proxy's name.
func (w *egressWatcher) pass(routes []egress.ProxiedAddress, now time.Time) {
	if !w.target.serving || !w.observed || w.waits(now) {
		return
	}
	s := w.target
	s.egress = w.command(routes)
	if !w.pending && reflect.DeepEqual(s, w.passed) {
		return
	}
	w.pending, w.passed = false, s
	w.next(s)
}

// waits reports whether the target waits for the first addresses of a name.
func (w *egressWatcher) waits(now time.Time) bool {
	unsettled := false
	for _, r := range w.resolutions {
		unsettled = unsettled || !r.settled() && !r.timedOut
	}
	if !w.pending || !unsettled {
		w.deadline = time.Time{}
		return false
	}
	if w.deadline.IsZero() {
		w.deadline = now.Add(firstResolutionTimeout)
	}
	if now.Before(w.deadline) {
		return true
	}
	w.deadline = time.Time{}
	for _, r := range w.resolutions {
		r.timedOut = true
	}
	return false
}

// readFiles reads the files and takes the setting that they request.
func (w *egressWatcher) readFiles(now time.Time, fileEvent bool) {
	if !w.configured {
		return
	}
	w.nextRead = now.Add(fileReadInterval)
	settings, err := w.proxySettings(now)
	switch {
	case err != nil:
		w.rejectSetting(report.EgressInputFile, err, now)
	case settings.IsEmpty():
		w.requestSetting(egress.Configuration{Settings: settings}, now)
	default:
		roots, description, err := w.readCAs(now, fileEvent)
		if err != nil {
			w.rejectSetting(report.EgressInputTrustedCA, err, now)
			break
		}
		w.requestSetting(egress.Configuration{Settings: settings, Endpoints: w.config.EgressProxy.ReadinessEndpoints, Roots: roots, RootsDescription: description}, now)
	}
	w.publish(now)
}

// proxySettings returns the proxies of the configuration, or else of the file.
func (w *egressWatcher) proxySettings(now time.Time) (egress.ProxySettings, error) {
	c := w.config.EgressProxy
	if c.Inline() {
		return egress.FromConfiguration(c.HTTPProxy, c.HTTPSProxy, c.NoProxy)
	}
	w.readWithin(now, w.file.Refresh(now))
	return w.file.Settings()
}

// readWithin has the files read after that time at the latest. 0 changes nothing.
func (w *egressWatcher) readWithin(now time.Time, wait time.Duration) {
	if at := now.Add(wait); wait > 0 && at.Before(w.nextRead) {
		w.nextRead = at
	}
}

func (w *egressWatcher) rejectSetting(by report.EgressInput, reason error, now time.Time) {
	w.invalidInput = by
	w.acceptance.RejectSpec(reason, now)
}

func (w *egressWatcher) requestSetting(s egress.Configuration, now time.Time) {
	w.invalidInput = ""
	if w.acceptance.SetSpec(s, now) {
		w.saveAccepted()
	}
}

// saveAccepted has the accepted setting written for the next start.
func (w *egressWatcher) saveAccepted() {
	accepted, at := w.acceptance.Effective(), w.acceptance.State().AcceptedAt
	w.save("egress", "accepted egress proxy", func() error { return w.store.Save(accepted, at) })
}

// directTargets returns what of this host and its cluster is never reached through a
// proxy.
func (w *egressWatcher) directTargets() egress.DirectDestinations {
	c := w.target.config.VIPs
	d := egress.NewDirectDestinations(c, slices.Concat(c.API, w.vips), w.target.ingress, w.subnets)
	name, err := apiname.Read(w.apiServerURLFile)
	if err == nil {
		d.ClusterDomain = strings.TrimPrefix(name, "api.")
	}
	w.logNameError(err)
	return d
}

// logNameError logs once why the cluster's domain is not known, if there is a proxy.
func (w *egressWatcher) logNameError(err error) {
	message := ""
	if err != nil && !w.acceptance.Effective().Settings.IsEmpty() {
		message = err.Error()
	}
	if message != "" && message != w.nameError {
		w.log.Warn("the cluster's domain is not known: names of the cluster can be requested through the egress proxy; add them to egressProxy.noProxy",
			slog.String("event", "egress"), slog.Any("error", err))
	}
	w.nameError = message
}

// run watches, probes and resolves until ctx ends.
func (w *egressWatcher) run(ctx context.Context) error {
	jobs := &egressJobs{egressWatcher: w, ctx: ctx, endpointResults: make(chan endpointResult, 1), lookupResults: make(chan map[string]lookup, 1)}
	defer jobs.running.Wait()
	defer jobs.abortProbe()
	handle := func(time.Time) {}
	for {
		w.work.begin()
		handle(time.Now())
		timer := time.NewTimer(time.Until(jobs.startDue(time.Now())))
		w.work.end()
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case s := <-w.settings.values:
			handle = func(now time.Time) { w.apply(s, now) }
		case o := <-w.observations.values:
			handle = func(now time.Time) { w.observe(o, now) }
		case <-w.files.Changed():
			handle = func(now time.Time) { w.readFiles(now, true) }
		case <-timer.C:
			handle = func(time.Time) {}
		case r := <-jobs.endpointResults:
			handle = func(now time.Time) { jobs.recordEndpointResult(r, now) }
		case r := <-jobs.lookupResults:
			handle = func(now time.Time) { jobs.recordLookups(r, now) }
		}
		timer.Stop()
	}
}

// pendingReason names what the acceptance of the setting waits for.
func pendingReason(endpoints []egress.Endpoint) string {
	var all []string
	for _, p := range endpoints {
		if p.Error != "" {
			all = append(all, fmt.Sprintf("%s is not ready: %s", redactURL(p.URL), p.Error))
		}
	}
	return strings.Join(all, "; ")
}
