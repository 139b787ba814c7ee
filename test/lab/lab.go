// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Lab is one cluster's network that is up.
type Lab struct {
	Topology

	ID  string // names its namespaces and its directory
	Dir string // everything that it keeps on disk

	Gateway  *Node // the switch of the machine network and the way out
	Internet *Internet
	Worker   *Worker
	Masters  []*Master // none WithoutMasters
	Pods     []*Node   // pod i lives on master i

	own   int // how many masters it has of its own
	tools Tools
	nodes []*Node // in the order in which they were made
	lock  *os.File

	closing sync.Once
	closed  error
}

// New brings a lab up: when it returns, every VIP is where it belongs, the
// router answers on the ingress VIPs, and the CA is ready. Labs that crashed
// are removed first. The caller has to Close it.
func New(ctx context.Context, options ...Option) (*Lab, error) {
	if err := ready(); err != nil {
		return nil, err
	}
	if _, err := Clean(ctx); err != nil {
		return nil, fmt.Errorf("remove what a crashed lab left: %w", err)
	}
	tools, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	return raise(ctx, tools, options...)
}

// raise brings a lab up, and takes away what there is of it when that fails.
func raise(ctx context.Context, tools Tools, options ...Option) (*Lab, error) {
	l := &Lab{Topology: defaultTopology(), own: Masters, tools: tools}
	for _, o := range options {
		o(l)
	}
	var err error
	if l.ID, l.Dir, l.lock, err = claim(); err != nil {
		return nil, err
	}
	if err := l.up(ctx); err != nil {
		err = fmt.Errorf("bring the lab up: %w", err)
		if ctx.Err() == nil {
			err = fmt.Errorf("%w\n%s", err, l.Logs())
		}
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lab) up(ctx context.Context) error {
	if err := l.makeNodes(ctx); err != nil {
		return err
	}
	if err := l.wire(ctx); err != nil {
		return err
	}
	parts, partsCtx := errgroup.WithContext(ctx)
	parts.Go(func() error { return l.Internet.up(partsCtx) })
	parts.Go(func() error { return l.Worker.up(partsCtx) })
	for _, m := range l.Masters {
		parts.Go(func() error { return m.StartKeepalived(partsCtx) })
	}
	if err := parts.Wait(); err != nil {
		return err
	}
	if l.own == 0 {
		return nil
	}
	return l.Settled(ctx)
}

func (l *Lab) makeNodes(ctx context.Context) error {
	own := map[string]Pair{
		nameGateway: l.gateway, nameInternet: l.internet, nameWorker: l.worker,
	}
	for i := range l.own {
		own[masterName(i)], own[podName(i)] = l.masters[i], l.pods[i]
	}
	byName := map[string]*Node{}
	for _, name := range nodeNamesWith(l.own) {
		n, err := newNode(ctx, l, name, own[name])
		l.nodes = append(l.nodes, n)
		if err != nil {
			return err
		}
		byName[name] = n
	}
	l.Gateway = byName[nameGateway]
	l.Internet = &Internet{Node: byName[nameInternet]}
	worker := byName[nameWorker]
	l.Worker = &Worker{Node: worker, keepalived: keepalived{node: worker, instances: workerInstances(l.Topology)}}
	for i := range l.own {
		n := byName[masterName(i)]
		m := &Master{Node: n, Index: i, keepalived: keepalived{node: n, instances: masterInstances(l.Topology, i)}}
		l.Masters = append(l.Masters, m)
		l.Pods = append(l.Pods, byName[podName(i)])
	}
	return nil
}

// Settled waits until every VIP has exactly one holder: the ingress VIPs the
// worker, and both API VIPs the same master, the one that keepalived prefers
// among those whose keepalived runs and whose link is up.
func (l *Lab) Settled(ctx context.Context) error {
	return Eventually(ctx, "the VIPs on their nodes", func(ctx context.Context) error {
		want := l.preferred()
		if want == nil {
			return final(errors.New("keepalived runs on no master"))
		}
		return l.inPlace(ctx, want.Node, l.connected())
	})
}

// preferred is the master that holds the API VIPs when all is quiet.
func (l *Lab) preferred() *Master {
	i := slices.IndexFunc(l.Masters, func(m *Master) bool { return m.running() && !m.unplugged.Load() })
	if i < 0 {
		return nil
	}
	return l.Masters[i]
}

// connected are the masters; one whose cable is out does not count.
func (l *Lab) connected() []Candidate {
	var all []Candidate
	for _, m := range l.Masters {
		if !m.unplugged.Load() {
			all = append(all, m.Node)
		}
	}
	return all
}

// Holder returns the master that holds a VIP now.
func (l *Lab) Holder(ctx context.Context, vip netip.Addr) (*Master, error) {
	for _, m := range l.Masters {
		held, err := m.Holds(ctx, vip)
		if err != nil {
			return nil, err
		}
		if held && !m.unplugged.Load() {
			return m, nil
		}
	}
	return nil, fmt.Errorf("no master holds %s", vip)
}

// Close ends every process of the lab and removes its namespaces and its
// directory; when something stays, so does the directory, by which Clean finds
// it. Further calls return what the first one did.
func (l *Lab) Close() error {
	l.closing.Do(func() {
		// Cleaning up must work above all when the caller's context has ended.
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		var errs []error
		for _, n := range slices.Backward(l.nodes) {
			errs = append(errs, n.close(ctx))
		}
		errs = append(errs, removeNamespaces(ctx, l.ID))
		l.closed = errors.Join(errs...)
		if l.closed == nil {
			l.closed = os.RemoveAll(l.Dir)
		}
		l.closed = errors.Join(l.closed, l.lock.Close())
	})
	return l.closed
}

// Logs gathers the last lines of every program's output, for a failure's
// message.
func (l *Lab) Logs() string {
	var text strings.Builder
	for _, n := range l.nodes {
		n.mu.Lock()
		processes := slices.Clone(n.processes)
		n.mu.Unlock()
		seen := map[string]bool{}
		for _, p := range processes {
			if !seen[p.Log] {
				seen[p.Log] = true
				fmt.Fprintf(&text, "--- %s: %s\n%s\n", n.Name, p.Name, p.Tail(30))
			}
		}
	}
	return text.String()
}

func (l *Lab) namespace(node string) string { return namespaceOf(l.ID, node) }
