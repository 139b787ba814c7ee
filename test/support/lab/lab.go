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

// Lab is a running cluster network.
type Lab struct {
	Topology

	ID  string // names the namespaces and the directory
	Dir string // all files of the lab

	Gateway      *Node // the switch of the machine network and its gateway
	Internet     *Internet
	Worker       *Worker             // nil in a compact lab
	Routers      []*Worker           // the worker, or in a compact lab each control-plane node
	ControlPlane []*ControlPlaneNode // none WithoutControlPlane
	Arbiter      *ControlPlaneNode   // nil without an arbiter
	Egress       *Egress             // nil unless WithEgress
	Pods         []*Node             // pod i is on control-plane node i

	has   parts
	tools Tools
	nodes []*Node // in the order in which they were made
	lock  *os.File

	closing sync.Once
	closed  error
}

// New brings up a lab. When it returns, every VIP is in place, the router answers on the
// ingress VIPs, and the CA is ready. Crashed labs are removed first, and the new one after an
// error. The caller must Close it.
func New(ctx context.Context, options ...Option) (*Lab, error) {
	if err := checkPrerequisites(); err != nil {
		return nil, err
	}
	if _, err := Clean(ctx); err != nil {
		return nil, fmt.Errorf("remove what a crashed lab left: %w", err)
	}
	tools, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	l := &Lab{Topology: defaultTopology(), has: parts{controlPlaneNodes: ControlPlaneNodes}, tools: tools}
	for _, o := range options {
		o(l)
	}
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
	for _, w := range l.Routers {
		parts.Go(func() error { return w.up(partsCtx) })
	}
	for _, m := range l.vrrp() {
		parts.Go(func() error { return m.StartKeepalived(partsCtx) })
	}
	if err := parts.Wait(); err != nil {
		return err
	}
	if len(l.vrrp()) == 0 {
		return nil
	}
	return l.AwaitVIPs(ctx)
}

func (l *Lab) makeNodes(ctx context.Context) error {
	own := map[string]Pair{
		nameGateway: l.gateway, nameInternet: l.internet, nameWorker: l.worker, nameEgress: l.egress,
		nameArbiter: l.arbiter,
	}
	for i := range l.has.controlPlaneNodes {
		own[controlPlaneName(i)], own[podName(i)] = l.controlPlane[i], l.pods[i]
	}
	byName := map[string]*Node{}
	for _, name := range l.has.nodeNames() {
		n, err := newNode(ctx, l, name, own[name])
		l.nodes = append(l.nodes, n)
		if err != nil {
			return err
		}
		byName[name] = n
	}
	l.Gateway = byName[nameGateway]
	l.Internet = &Internet{Node: byName[nameInternet]}
	if l.has.egress {
		l.Egress = &Egress{Node: byName[nameEgress]}
	}
	for i := range l.has.controlPlaneNodes {
		n := byName[controlPlaneName(i)]
		instances := controlPlaneInstances(l.Topology, i)
		l.ControlPlane = append(l.ControlPlane, newControlPlaneNode(n, i, l.has.link.name(), instances))
		l.Pods = append(l.Pods, byName[podName(i)])
	}
	if l.has.arbiter {
		l.Arbiter = newControlPlaneNode(byName[nameArbiter], len(l.ControlPlane), uplink, arbiterInstances(l.Topology))
	}
	l.makeRouters(byName[nameWorker])
	return nil
}

// makeRouters places the router on the worker, or without a worker on each control-plane
// node.
func (l *Lab) makeRouters(worker *Node) {
	if worker == nil {
		for _, m := range l.ControlPlane {
			l.Routers = append(l.Routers, &Worker{Node: m.Node})
		}
		return
	}
	l.Worker = &Worker{
		Node: worker, keepalived: keepalived{node: worker, link: uplink, instances: workerInstances(l.Topology)},
	}
	l.Routers = []*Worker{l.Worker}
}

// VIPHolder returns the control-plane node that holds a VIP now.
func (l *Lab) VIPHolder(ctx context.Context, vip netip.Addr) (*ControlPlaneNode, error) {
	for _, m := range l.ControlPlane {
		held, err := m.Holds(ctx, vip)
		if err != nil {
			return nil, err
		}
		if held && !m.unplugged.Load() {
			return m, nil
		}
	}
	return nil, fmt.Errorf("no control-plane node holds %s", vip)
}

// Close ends every process of the lab and removes its namespaces and its directory. When
// something remains, the directory stays, so that Clean finds it. Further calls return the
// first result.
func (l *Lab) Close() error {
	l.closing.Do(func() {
		// The cleanup must work when the caller's context ended.
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

// Logs returns the last lines of every program's output for an error message.
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
