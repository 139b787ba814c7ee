// SPDX-License-Identifier: Apache-2.0

package routeagent

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/internal/loop"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// ReloadInterval is the default of the router's tuning option reloadInterval.
const ReloadInterval = 5 * time.Second

// Agent gives routers the routes of Ingresses.
type Agent struct {
	client   kubernetes.Interface
	routers  []*lab.Worker
	interval time.Duration
	log      *slog.Logger

	classes   networkinglisters.IngressClassLister
	ingresses networkinglisters.IngressLister
	services  corelisters.ServiceLister
	slices    discoverylisters.EndpointSliceLister

	known    map[route]netip.AddrPort // the Routes
	seen     map[route]netip.AddrPort // at the last reload
	set      map[route][]*lab.Route   // on each router
	reloaded time.Time
}

// New returns an agent for routers that reload at most once in an interval.
func New(client kubernetes.Interface, routers []*lab.Worker, interval time.Duration, log *slog.Logger) *Agent {
	return &Agent{client: client, routers: routers, interval: interval, log: log, set: map[route][]*lab.Route{}}
}

// Run sets the routes until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(a.client, 0)
	classes, ingresses, services, endpoints := factory.Networking().V1().IngressClasses(),
		factory.Networking().V1().Ingresses(), factory.Core().V1().Services(), factory.Discovery().V1().EndpointSlices()
	a.classes, a.ingresses = classes.Lister(), ingresses.Lister()
	a.services, a.slices = services.Lister(), endpoints.Lister()
	watched := []cache.SharedIndexInformer{
		classes.Informer(), ingresses.Informer(), services.Informer(), endpoints.Informer(),
	}
	return loop.Run(ctx, a.log, factory, watched, a.reconcile)
}

func (a *Agent) reconcile(ctx context.Context) (time.Duration, error) {
	var o objects
	var errs [4]error
	o.classes, errs[0] = a.classes.List(labels.Everything())
	o.ingresses, errs[1] = a.ingresses.List(labels.Everything())
	o.slices, errs[2] = a.slices.List(labels.Everything())
	o.services, errs[3] = a.services.List(labels.Everything())
	if err := errors.Join(errs[:]...); err != nil {
		return 0, err
	}
	var next time.Duration // until the delay of an Ingress has passed
	o.ingresses, next = due(o.ingresses, time.Now())
	want := o.routes(a.known)
	a.known = want
	if maps.Equal(want, a.seen) {
		return next, nil
	}
	if rest := a.interval - time.Since(a.reloaded); rest > 0 {
		return rest, nil
	}
	a.reloaded = time.Now()
	return next, a.reload(ctx, want)
}

// reload sets the routes that have changed on every router, at the same time: a router needs few
// reloads for them.
func (a *Agent) reload(ctx context.Context, want map[route]netip.AddrPort) error {
	var changes errgroup.Group
	for r, set := range a.set {
		if want[r] == a.seen[r] {
			continue
		}
		delete(a.set, r)
		for _, one := range set {
			changes.Go(func() error { return one.Remove(ctx) })
		}
	}
	added := make(chan setRoute, len(want))
	for r, to := range want {
		if !to.IsValid() || a.set[r] != nil {
			continue
		}
		changes.Go(func() error {
			set, err := a.add(ctx, r, to)
			if err == nil {
				added <- setRoute{r, set}
			}
			return err
		})
	}
	err := changes.Wait()
	close(added)
	for s := range added {
		a.set[s.route] = s.set
	}
	if err != nil {
		return err
	}
	a.seen = want
	a.log.Info("reloaded", slog.Int("routes", len(want)), slog.Int("with_endpoints", len(a.set)))
	return nil
}

type setRoute struct {
	route
	set []*lab.Route // on each router
}

// add sets a route on every router, or on none after an error.
func (a *Agent) add(ctx context.Context, r route, to netip.AddrPort) (set []*lab.Route, err error) {
	for _, w := range a.routers {
		one, err := w.AddRouteTo(ctx, r.host, r.path, to.Addr(), int(to.Port()))
		if err != nil {
			for _, added := range set {
				err = errors.Join(err, added.Remove(ctx))
			}
			return nil, err
		}
		set = append(set, one)
	}
	return set, nil
}
