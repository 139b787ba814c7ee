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
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// egressLook is how often the files are read anew without a hint.
	egressLook = 30 * time.Second
	// resolveEvery is how often the proxy's name is resolved; after a failure the
	// waits double from resolveSoon up to it.
	resolveEvery = time.Minute
	resolveSoon  = time.Second
	// surveyAgain is how soon the host's subnets are looked at again.
	surveyAgain = 5 * time.Second
)

// egressWatch keeps the egress proxy: what the files and the configuration ask for,
// what of it is accepted, and what the gate is to do about it. A child without
// capabilities asks the network.
type egressWatch struct {
	log          *slog.Logger
	board        *report.Board
	kept         egress.Keeper
	addresses    func() ([]address.Address, error)
	tell         func(protocol.Egress) // the gate, through the door
	network      asker
	apiServerURL string
	files        *filewatch.Watcher
	woken        chan struct{} // yields a value some time after there may be something new to do

	mu         sync.Mutex
	config     config.Config
	known      bool // there is a configuration
	led        bool // lead was called
	ingress    []netip.Addr
	gates      config.Config // the one that the gate goes by: that of the last lead
	published  time.Time
	file       *egress.File
	ca         *trust.Source
	anchors    []string  // directories of files that are a part of what the host trusts
	blank      time.Time // the file of CAs is empty since
	system     *trust.System
	acceptance egress.Acceptance
	refusedBy  report.EgressRefusal
	names      map[string]*resolution  // of proxies' hosts
	last       map[string][]netip.Addr // of such names, over restarts
	used       *usedEgress             // what the gate was told by; nil before
	tried      chan struct{}           // closed, and made anew, when names have been resolved or could not be
	again      time.Time               // to look at the files
	shown      report.EgressProxy      // on the board
}

// resolution is what is known of a proxy's name.
type resolution struct {
	addrs []netip.Addr // the last that were found
	err   error        // of the last try
	next  time.Time
	wait  time.Duration // after the next failure
	late  bool          // it was waited for long enough
}

// known reports whether it has an address, or it is known why not.
func (r *resolution) known() bool { return len(r.addrs) > 0 || r.err != nil }

// usedEgress is by which the ways are that the gate goes.
type usedEgress struct {
	egress  config.EgressProxy
	setting egress.Setting
}

func newEgressWatch(o Options, board *report.Board, addresses func() ([]address.Address, error), tell func(protocol.Egress)) (*egressWatch, error) {
	files, err := filewatch.NewWithin(o.Log, followDelay)
	if err != nil {
		return nil, err
	}
	e := &egressWatch{
		log: o.Log, board: board, kept: egress.NewKeeper(o.StateDir), addresses: addresses, tell: tell,
		network: childAsker{o.ResolvConf, o.Hosts}, apiServerURL: o.APIServerURL, files: files,
		woken: make(chan struct{}, 1), system: trust.NewSystem(o.SystemTrust), anchors: anchors(), names: make(map[string]*resolution),
		last: make(map[string][]netip.Addr), tried: make(chan struct{}),
	}
	setting, at, err := e.kept.Load()
	switch {
	case err == nil:
		e.acceptance.Restore(setting, at)
	case !errors.Is(err, fs.ErrNotExist):
		e.log.Warn("the egress proxy that was accepted before this start is not known any more", slog.String("event", "egress"), slog.Any("error", err))
	}
	last, err := e.kept.Addresses()
	switch {
	case err == nil && last != nil:
		e.last = last
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		e.log.Warn("the last addresses of the egress proxy are not known any more", slog.String("event", "egress"), slog.Any("error", err))
	}
	return e, nil
}

// configure takes the configuration in force. The files are read at once when it has
// changed, so that the gate knows before the first client comes.
func (e *egressWatch) configure(c config.Config) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known && e.config.EgressProxy.Equal(c.EgressProxy) {
		e.config = c
		return
	}
	e.config, e.known = c, true
	if !e.led {
		e.gates = c
	}
	if e.file == nil || e.file.Path() != c.EgressProxy.File {
		e.file = egress.NewFile(c.EgressProxy.File)
	}
	if e.ca == nil || e.ca.Path() != c.EgressProxy.TrustedCA {
		e.ca = trust.NewSource(c.EgressProxy.TrustedCA, trust.Kept{})
	}
	e.files.Watch(append([]string{c.EgressProxy.File, c.EgressProxy.TrustedCA}, e.system.Paths()...)...)
	e.look(time.Now(), true)
	e.wake()
}

// lead takes the ingress addresses, and has the ways there follow the configuration.
// It comes before the gate is told of these two. Until then the gate goes by the
// former ones, and so do the ways: it would reach an address that they do not have
// past the proxy. And it waits for the first addresses of a proxy on the way:
// without, each challenge would fail.
func (e *egressWatch) lead(ingress []netip.Addr) {
	e.takeIngress(ingress)
	e.awaitNames()
}

func (e *egressWatch) takeIngress(ingress []netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if e.led && slices.Equal(e.ingress, ingress) && sameWays(e.gates, e.config) && now.Sub(e.published) < surveyAgain {
		// Addresses of pods come and go all the time; the host's subnets do not.
		e.soon(now, surveyAgain)
		return
	}
	e.ingress, e.gates, e.led = slices.Clone(ingress), e.config, true
	e.publish()
	e.wake()
}

// firstNames bounds the wait for the addresses of names that are new. The loop that
// waits also takes other news of this host.
const firstNames = 3 * time.Second

// awaitNames returns when each name on the way has been tried to be resolved.
func (e *egressWatch) awaitNames() {
	enough := time.NewTimer(firstNames)
	defer enough.Stop()
	for {
		e.mu.Lock()
		tried, all := e.tried, true
		for _, r := range e.names {
			all = all && (r.known() || r.late)
		}
		e.mu.Unlock()
		if all {
			return
		}
		select {
		case <-tried:
		case <-enough.C:
			e.waitNoMore()
			return
		}
	}
}

// waitNoMore spares the next look at this host the same wait.
func (e *egressWatch) waitNoMore() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.names {
		r.late = true
	}
}

// sameWays reports whether both lead to the same ingress addresses in the same way.
func sameWays(a, b config.Config) bool {
	return a.Upstream.Equal(b.Upstream) && a.EgressProxy.Upstream == b.EgressProxy.Upstream &&
		slices.Equal(a.VIPs.API, b.VIPs.API) && a.VIPs.Explicit() == b.VIPs.Explicit()
}

func (e *egressWatch) wake() {
	select {
	case e.woken <- struct{}{}:
	default:
	}
}

// look reads the files and takes what is asked for now. It needs mu.
func (e *egressWatch) look(now time.Time, hinted bool) {
	if !e.known {
		return
	}
	e.again = now.Add(egressLook)
	settings, err := e.settings(now)
	switch {
	case err != nil:
		e.refuse(report.EgressFileRefused, err, now)
	case settings.None():
		e.want(egress.Setting{Settings: settings}, now)
	default:
		roots, about, err := e.lookAtCAs(now, hinted)
		if err != nil {
			e.refuse(report.EgressCARefused, err, now)
			break
		}
		e.want(egress.Setting{Settings: settings, Endpoints: e.config.EgressProxy.ReadinessEndpoints, Roots: roots, About: about}, now)
	}
	e.publish()
}

// settings are what the configuration says, or else the file. It needs mu.
func (e *egressWatch) settings(now time.Time) (egress.Settings, error) {
	c := e.config.EgressProxy
	if c.Inline() {
		return egress.FromConfiguration(c.HTTPProxy, c.HTTPSProxy, c.NoProxy)
	}
	e.soon(now, e.file.Look(now))
	return e.file.Settings()
}

// soon has the files looked at sooner; 0 is no wish. It needs mu.
func (e *egressWatch) soon(now time.Time, again time.Duration) {
	if at := now.Add(again); again > 0 && at.Before(e.again) {
		e.again = at
	}
}

func (e *egressWatch) refuse(by report.EgressRefusal, why error, now time.Time) {
	e.refusedBy = by
	e.acceptance.Refuse(why, now)
}

func (e *egressWatch) want(s egress.Setting, now time.Time) {
	e.refusedBy = ""
	if e.acceptance.Want(s, now) {
		e.save()
	}
}

// save keeps what is accepted over a restart. It needs mu.
func (e *egressWatch) save() {
	if err := e.kept.Save(e.acceptance.InForce(), e.acceptance.State().At); err != nil {
		e.log.Warn("after a restart the egress proxy has to be accepted anew", slog.String("event", "egress"), slog.Any("error", err))
	}
}

// around is what of this host and its cluster is never reached through a proxy. It
// needs mu.
func (e *egressWatch) around() egress.Around {
	a := egress.Around{VIPs: slices.Clone(e.gates.VIPs.API)}
	for _, v := range e.board.VIPs() {
		a.VIPs = append(a.VIPs, v.Address)
	}
	// An ingress address that the admin names may stand anywhere; those that
	// keepalived keeps are in the cluster's own network.
	if !e.gates.VIPs.Explicit() {
		a.VIPs = append(a.VIPs, e.ingress...)
	}
	if name, err := apiname.Read(e.apiServerURL); err == nil {
		a.Cluster = strings.TrimPrefix(name, "api.")
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
func (e *egressWatch) run(ctx context.Context) error {
	w := &egressWork{egressWatch: e, ctx: ctx, answers: make(chan answersOfTurn, 1), found: make(chan map[string]found, 1)}
	defer w.all.Wait()
	defer w.abort()
	for {
		next := w.begin(time.Now())
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-e.woken:
		case <-e.files.Changed():
			e.hinted()
		case <-timer.C:
		case a := <-w.answers:
			w.heard(a)
		case found := <-w.found:
			w.resolved(found)
		}
		timer.Stop()
	}
}

func (e *egressWatch) hinted() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.look(time.Now(), true)
}

// whyNotYet names what keeps the setting from being accepted.
func whyNotYet(endpoints []egress.Endpoint) string {
	var all []string
	for _, p := range endpoints {
		if p.Error != "" {
			all = append(all, fmt.Sprintf("%s is not ready: %s", shownURL(p.URL), p.Error))
		}
	}
	return strings.Join(all, "; ")
}
