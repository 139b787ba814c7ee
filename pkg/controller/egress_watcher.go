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
	files, err := filewatch.NewWithMaxDelay(o.Log, fileDebounce)
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
func (e *egressWatcher) apply(s proxySettings, now time.Time) {
	changed := !e.configured || !e.config.EgressProxy.Equal(s.config.EgressProxy)
	e.config, e.configured = s.config, true
	switch {
	case s.serving:
		e.pending = e.pending || s.generation != e.target.generation
		e.target = s
	case e.target.serving:
		e.target.cas = s.cas
	default: // for the report
		e.target.config = s.config
	}
	if !changed {
		e.publish(now)
		return
	}
	if e.file == nil || e.file.Path() != e.config.EgressProxy.File {
		e.file = egress.NewFile(e.config.EgressProxy.File)
	}
	if e.ca == nil || e.ca.Path() != e.config.EgressProxy.TrustedCA {
		e.ca = trust.NewSource(e.config.EgressProxy.TrustedCA, trust.LastGoodCopy{})
	}
	e.files.Watch(append([]string{e.config.EgressProxy.File, e.config.EgressProxy.TrustedCA}, e.system.Paths()...)...)
	e.readFiles(now, true)
}

// observe takes what the reconcile loop has seen: addresses that are never reached through
// a proxy.
func (e *egressWatcher) observe(o reconcile.Observation, now time.Time) {
	var vips []netip.Addr
	for _, v := range o.VIPs {
		vips = append(vips, v.Address)
	}
	var subnets []netip.Prefix
	for _, a := range o.Addresses {
		subnets = append(subnets, netip.PrefixFrom(a.IP, a.Bits))
	}
	first, sameVIPs, sameSubnets := !e.observed, slices.Equal(vips, e.vips), slices.Equal(subnets, e.subnets)
	e.observed, e.vips, e.subnets = true, vips, subnets
	switch {
	case first || !sameVIPs:
		e.publish(now)
	case !sameSubnets:
		e.readWithin(now, subnetRefreshInterval)
	}
}

// pass passes the settings on with the routes, except while they wait for the first
// addresses of a proxy's name.
func (e *egressWatcher) pass(routes []egress.ProxiedAddress, now time.Time) {
	if !e.target.serving || !e.observed || e.waits(now) {
		return
	}
	s := e.target
	s.egress = e.command(routes)
	if !e.pending && reflect.DeepEqual(s, e.passed) {
		return
	}
	e.pending, e.passed = false, s
	e.next(s)
}

// waits reports whether the target waits for the first addresses of a name.
func (e *egressWatcher) waits(now time.Time) bool {
	unsettled := false
	for _, r := range e.resolutions {
		unsettled = unsettled || !r.settled() && !r.timedOut
	}
	if !e.pending || !unsettled {
		e.deadline = time.Time{}
		return false
	}
	if e.deadline.IsZero() {
		e.deadline = now.Add(firstResolutionTimeout)
	}
	if now.Before(e.deadline) {
		return true
	}
	e.deadline = time.Time{}
	for _, r := range e.resolutions {
		r.timedOut = true
	}
	return false
}

// readFiles reads the files and takes the setting that they request.
func (e *egressWatcher) readFiles(now time.Time, fileEvent bool) {
	if !e.configured {
		return
	}
	e.nextRead = now.Add(fileReadInterval)
	settings, err := e.proxySettings(now)
	switch {
	case err != nil:
		e.rejectSetting(report.EgressInputFile, err, now)
	case settings.IsEmpty():
		e.requestSetting(egress.Configuration{Settings: settings}, now)
	default:
		roots, description, err := e.readCAs(now, fileEvent)
		if err != nil {
			e.rejectSetting(report.EgressInputTrustedCA, err, now)
			break
		}
		e.requestSetting(egress.Configuration{Settings: settings, Endpoints: e.config.EgressProxy.ReadinessEndpoints, Roots: roots, RootsDescription: description}, now)
	}
	e.publish(now)
}

// proxySettings returns the proxies of the configuration, or else of the file.
func (e *egressWatcher) proxySettings(now time.Time) (egress.ProxySettings, error) {
	c := e.config.EgressProxy
	if c.Inline() {
		return egress.FromConfiguration(c.HTTPProxy, c.HTTPSProxy, c.NoProxy)
	}
	e.readWithin(now, e.file.Refresh(now))
	return e.file.Settings()
}

// readWithin has the files read after that time at the latest. 0 changes nothing.
func (e *egressWatcher) readWithin(now time.Time, wait time.Duration) {
	if at := now.Add(wait); wait > 0 && at.Before(e.nextRead) {
		e.nextRead = at
	}
}

func (e *egressWatcher) rejectSetting(by report.EgressInput, reason error, now time.Time) {
	e.invalidInput = by
	e.acceptance.RejectSpec(reason, now)
}

func (e *egressWatcher) requestSetting(s egress.Configuration, now time.Time) {
	e.invalidInput = ""
	if e.acceptance.SetSpec(s, now) {
		e.saveAccepted()
	}
}

// saveAccepted has the accepted setting written for the next start.
func (e *egressWatcher) saveAccepted() {
	accepted, at := e.acceptance.Effective(), e.acceptance.State().AcceptedAt
	e.save("egress", "accepted egress proxy", func() error { return e.store.Save(accepted, at) })
}

// directTargets returns what of this host and its cluster is never reached through a
// proxy.
func (e *egressWatcher) directTargets() egress.DirectDestinations {
	c := e.target.config.VIPs
	d := egress.NewDirectDestinations(c, slices.Concat(c.API, e.vips), e.target.ingress, e.subnets)
	name, err := apiname.Read(e.apiServerURLFile)
	if err == nil {
		d.ClusterDomain = strings.TrimPrefix(name, "api.")
	}
	e.logNameError(err)
	return d
}

// logNameError logs once why the cluster's domain is not known, if there is a proxy.
func (e *egressWatcher) logNameError(err error) {
	message := ""
	if err != nil && !e.acceptance.Effective().Settings.IsEmpty() {
		message = err.Error()
	}
	if message != "" && message != e.nameError {
		e.log.Warn("the cluster's domain is not known: names of the cluster can be requested through the egress proxy; add them to egressProxy.noProxy",
			slog.String("event", "egress"), slog.Any("error", err))
	}
	e.nameError = message
}

// run watches, probes and resolves until ctx ends.
func (e *egressWatcher) run(ctx context.Context) error {
	w := &egressJobs{egressWatcher: e, ctx: ctx, endpointResults: make(chan endpointResult, 1), lookupResults: make(chan map[string]lookup, 1)}
	defer w.jobs.Wait()
	defer w.abortProbe()
	for {
		timer := time.NewTimer(time.Until(w.startDue(time.Now())))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case s := <-e.settings.values:
			e.apply(s, time.Now())
		case o := <-e.observations.values:
			e.observe(o, time.Now())
		case <-e.files.Changed():
			e.readFiles(time.Now(), true)
		case <-timer.C:
		case r := <-w.endpointResults:
			w.recordEndpointResult(r)
		case r := <-w.lookupResults:
			w.recordLookups(r)
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
