// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/filewatch"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/apiname"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// egressReadInterval is how often the files are read anew without a hint.
	egressReadInterval = 30 * time.Second
	// resolveInterval is how often the proxy's name is resolved; after a failure the
	// waits double from minResolveBackoff up to it.
	resolveInterval   = time.Minute
	minResolveBackoff = time.Second
	// subnetRefreshInterval is how soon the host's subnets are looked at again.
	subnetRefreshInterval = 5 * time.Second
)

// egressWatcher keeps the egress proxy: what the files and the configuration ask for,
// what of it is accepted, and what the gate is to do about it. A child without
// capabilities asks the network.
type egressWatcher struct {
	log          *slog.Logger
	tracker      *report.Tracker
	store        egress.Store
	addresses    func() ([]address.Address, error)
	setEgress    func(egressDecision)
	prober       networkProber
	apiServerURL string
	files        *filewatch.Watcher
	wakeUp       chan struct{} // yields a value some time after there may be something new to do

	mu             sync.Mutex
	config         config.Config
	configured     bool // there is a configuration
	ingressKnown   bool // lead was called
	ingress        []netip.Addr
	appliedConfig  config.Config // the one that the gate goes by: that of the last lead
	published      time.Time
	file           *egress.File
	ca             *trust.Source
	anchorDirs     []string  // directories of files that are a part of what the host trusts
	emptySince     time.Time // the file of CAs is empty since
	system         *trust.System
	acceptance     egress.Acceptance
	refusedBy      report.EgressInput
	resolutions    map[string]*resolution  // of proxies' hosts
	savedAddresses map[string][]netip.Addr // of such names, over restarts
	applied        *appliedEgress          // what the gate was told by; nil before
	decision       egressDecision
	resolutionDone chan struct{}      // closed, and made anew, when names have been resolved or could not be
	nextRead       time.Time          // to look at the files
	lastReported   report.EgressProxy // on the board
}

// resolution is what is known of a proxy's name.
type resolution struct {
	addrs    []netip.Addr // the last that were found
	err      error        // of the last try
	next     time.Time
	backoff  time.Duration // after the next failure
	timedOut bool          // it was waited for long enough
}

// causeContext reports whether it has an address, or it is known why not.
func (r *resolution) settled() bool { return len(r.addrs) > 0 || r.err != nil }

// appliedEgress is by which the ways are that the gate goes.
type appliedEgress struct {
	egress  config.EgressProxy
	setting egress.Configuration
}

func newEgressWatcher(o Options, board *report.Tracker, addresses func() ([]address.Address, error), tell func(egressDecision)) (*egressWatcher, error) {
	files, err := filewatch.NewWithMaxDelay(o.Log, fileDebounce)
	if err != nil {
		return nil, err
	}
	e := &egressWatcher{
		log: o.Log, tracker: board, store: egress.NewStore(o.StateDir), addresses: addresses, setEgress: tell,
		prober: childNetworkProber{o.ResolvConf, o.HostsFile}, apiServerURL: o.APIServerURLFile, files: files,
		wakeUp: make(chan struct{}, 1), system: trust.NewSystem(o.SystemCABundles), anchorDirs: caAnchorDirs(), resolutions: make(map[string]*resolution),
		savedAddresses: make(map[string][]netip.Addr), resolutionDone: make(chan struct{}),
	}
	setting, at, err := e.store.Load()
	switch {
	case err == nil:
		e.acceptance.Restore(setting, at)
	case !errors.Is(err, fs.ErrNotExist):
		e.log.Warn("the egress proxy that was accepted before this start is not known any more", slog.String("event", "egress"), slog.Any("error", err))
	}
	last, err := e.store.LoadAddresses()
	switch {
	case err == nil && last != nil:
		e.savedAddresses = last
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		e.log.Warn("the last addresses of the egress proxy are not known any more", slog.String("event", "egress"), slog.Any("error", err))
	}
	return e, nil
}

// configure takes the configuration in force. The files are read at once when it has
// changed, so that the gate knows before the first client comes.
func (e *egressWatcher) configure(c config.Config) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.configured && e.config.EgressProxy.Equal(c.EgressProxy) {
		e.config = c
		return
	}
	e.config, e.configured = c, true
	if !e.ingressKnown {
		e.appliedConfig = c
	}
	if e.file == nil || e.file.Path() != c.EgressProxy.File {
		e.file = egress.NewFile(c.EgressProxy.File)
	}
	if e.ca == nil || e.ca.Path() != c.EgressProxy.TrustedCA {
		e.ca = trust.NewSource(c.EgressProxy.TrustedCA, trust.LastGoodCopy{})
	}
	e.files.Watch(append([]string{c.EgressProxy.File, c.EgressProxy.TrustedCA}, e.system.Paths()...)...)
	e.readFiles(time.Now(), true)
	e.wake()
}

// egressDecision is the egress decision for one set of upstream settings.
type egressDecision struct {
	ingress.Egress

	generation uint64 // of the upstream settings, see setIngress
}

// setIngress applies the ingress addresses with the current configuration, and returns
// the egress decision for both. The decision must take effect together with them. If
// the name of a proxy was never resolved, setIngress waits for it: without addresses
// each challenge would fail.
func (e *egressWatcher) setIngress(ingress []netip.Addr) egressDecision {
	e.updateIngress(ingress)
	e.awaitFirstResolution()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.decision
}

func (e *egressWatcher) updateIngress(ingress []netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if e.ingressKnown && slices.Equal(e.ingress, ingress) && sameRoutes(e.appliedConfig, e.config) && now.Sub(e.published) < subnetRefreshInterval {
		// Addresses of pods come and go all the time; the host's subnets do not.
		e.readWithin(now, subnetRefreshInterval)
		return
	}
	e.ingress, e.appliedConfig, e.ingressKnown = slices.Clone(ingress), e.config, true
	e.decision.generation++
	e.publish()
	e.wake()
}

// firstResolutionTimeout bounds the wait for the addresses of names that are new. The loop that
// waits also takes other news of this host.
const firstResolutionTimeout = 3 * time.Second

// awaitFirstResolution returns when each name on the way has been tried to be resolved.
func (e *egressWatcher) awaitFirstResolution() {
	enough := time.NewTimer(firstResolutionTimeout)
	defer enough.Stop()
	for {
		e.mu.Lock()
		tried, all := e.resolutionDone, true
		for _, r := range e.resolutions {
			all = all && (r.settled() || r.timedOut)
		}
		e.mu.Unlock()
		if all {
			return
		}
		select {
		case <-tried:
		case <-enough.C:
			e.stopWaiting()
			return
		}
	}
}

// stopWaiting spares the next look at this host the same wait.
func (e *egressWatcher) stopWaiting() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.resolutions {
		r.timedOut = true
	}
}

// sameRoutes reports whether both lead to the same ingress addresses in the same way.
func sameRoutes(a, b config.Config) bool {
	return a.Upstream.Equal(b.Upstream) && a.EgressProxy.Upstream == b.EgressProxy.Upstream &&
		slices.Equal(a.VIPs.API, b.VIPs.API) && a.VIPs.Explicit() == b.VIPs.Explicit()
}

func (e *egressWatcher) wake() {
	select {
	case e.wakeUp <- struct{}{}:
	default:
	}
}

// setObservation reads the files and takes what is asked for now. It needs mu.
func (e *egressWatcher) readFiles(now time.Time, hinted bool) {
	if !e.configured {
		return
	}
	e.nextRead = now.Add(egressReadInterval)
	settings, err := e.settings(now)
	switch {
	case err != nil:
		e.rejectSetting(report.EgressInputFile, err, now)
	case settings.IsEmpty():
		e.requestSetting(egress.Configuration{Settings: settings}, now)
	default:
		roots, about, err := e.readCAs(now, hinted)
		if err != nil {
			e.rejectSetting(report.EgressInputTrustedCA, err, now)
			break
		}
		e.requestSetting(egress.Configuration{Settings: settings, Endpoints: e.config.EgressProxy.ReadinessEndpoints, Roots: roots, RootsDescription: about}, now)
	}
	e.publish()
}

// settings are what the configuration says, or else the file. It needs mu.
func (e *egressWatcher) settings(now time.Time) (egress.ProxySettings, error) {
	c := e.config.EgressProxy
	if c.Inline() {
		return egress.FromConfiguration(c.HTTPProxy, c.HTTPSProxy, c.NoProxy)
	}
	e.readWithin(now, e.file.Refresh(now))
	return e.file.Settings()
}

// readWithin has the files looked at sooner; 0 is no wish. It needs mu.
func (e *egressWatcher) readWithin(now time.Time, again time.Duration) {
	if at := now.Add(again); again > 0 && at.Before(e.nextRead) {
		e.nextRead = at
	}
}

func (e *egressWatcher) rejectSetting(by report.EgressInput, why error, now time.Time) {
	e.refusedBy = by
	e.acceptance.RejectSpec(why, now)
}

func (e *egressWatcher) requestSetting(s egress.Configuration, now time.Time) {
	e.refusedBy = ""
	if e.acceptance.SetSpec(s, now) {
		e.save()
	}
}

// save keeps what is accepted over a restart. It needs mu.
func (e *egressWatcher) save() {
	if err := e.store.Save(e.acceptance.Effective(), e.acceptance.State().AcceptedAt); err != nil {
		e.log.Warn("after a restart the egress proxy has to be accepted anew", slog.String("event", "egress"), slog.Any("error", err))
	}
}

// directTargets is what of this host and its cluster is never reached through a proxy. It
// needs mu.
func (e *egressWatcher) directTargets() egress.DirectDestinations {
	a := egress.DirectDestinations{VIPs: slices.Clone(e.appliedConfig.VIPs.API)}
	for _, v := range e.tracker.VIPs() {
		a.VIPs = append(a.VIPs, v.Address)
	}
	// An ingress address that the admin names may stand anywhere; those that
	// keepalived keeps are in the cluster's own network.
	if !e.appliedConfig.VIPs.Explicit() {
		a.VIPs = append(a.VIPs, e.ingress...)
	}
	if name, err := apiname.Read(e.apiServerURL); err == nil {
		a.ClusterDomain = strings.TrimPrefix(name, "api.")
	}
	found, err := e.addresses()
	if err != nil {
		return a // the next look of the reconcile loop says it
	}
	for _, own := range found {
		a.Subnets = append(a.Subnets, netip.PrefixFrom(own.IP, own.Bits))
	}
	return a
}

// run asks and resolves until ctx ends.
func (e *egressWatcher) run(ctx context.Context) error {
	w := &egressJobs{egressWatcher: e, ctx: ctx, endpointResults: make(chan endpointResult, 1), lookupResults: make(chan map[string]lookup, 1)}
	defer w.jobs.Wait()
	defer w.abortProbe()
	for {
		next := w.startDue(time.Now())
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-e.wakeUp:
		case <-e.files.Changed():
			e.onFileChange()
		case <-timer.C:
		case a := <-w.endpointResults:
			w.recordEndpointResult(a)
		case found := <-w.lookupResults:
			w.recordLookups(found)
		}
		timer.Stop()
	}
}

func (e *egressWatcher) onFileChange() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readFiles(time.Now(), true)
}

// pendingReason names what keeps the setting from being accepted.
func pendingReason(endpoints []egress.Endpoint) string {
	var all []string
	for _, p := range endpoints {
		if p.Error != "" {
			all = append(all, fmt.Sprintf("%s is not ready: %s", redactURL(p.URL), p.Error))
		}
	}
	return strings.Join(all, "; ")
}
