// SPDX-License-Identifier: Apache-2.0

package oc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
	"github.com/http01-proxyd/http01-proxyd/test/support/validator"
)

// Node is a host of the pool master.
type Node struct {
	Name   string
	Daemon *mcd.Daemon
}

// Rollout is the result of a configuration change on one node.
type Rollout struct {
	Node   string
	Report mcd.Report
	Drift  error // drift of the node's files after the update
}

// Cluster simulates the cluster behind oc. Run may be called from several goroutines; one
// command runs at a time.
type Cluster struct {
	validator *validator.Validator
	operators map[oracle.Release]*oracle.Operator
	nodes     []Node
	base      [][]byte // MachineConfigs of the base configuration

	mu       sync.Mutex
	policy   policy            // MachineConfiguration "cluster"
	configs  map[string][]byte // applied MachineConfigs by name
	rendered string            // name of the pool's configuration, by the newest operator
	rollouts []Rollout
	updated  []string // the applied MachineConfigs that all nodes have
	paused   bool     // the pool is paused and its nodes keep their configuration
}

// newest is the release of the operator that acts on the cluster's objects.
const newest = oracle.OpenShift420

// New creates a cluster and applies the base configuration to its nodes. policy is its
// MachineConfiguration as an administrator applied it.
func New(ctx context.Context, policy []byte, nodes []Node, base ...[]byte) (*Cluster, error) {
	j, err := validator.Load(ctx)
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		validator: j, operators: map[oracle.Release]*oracle.Operator{}, nodes: nodes, base: base,
		configs: map[string][]byte{},
	}
	for _, r := range oracle.Releases() {
		if c.operators[r], err = oracle.Load(ctx, r); err != nil {
			return nil, err
		}
	}
	stored, err := j.Apply(nil, policy, defaultManager, false)
	if err != nil {
		return nil, fmt.Errorf("apply the initial policy: %w", err)
	}
	if c.policy, err = newPolicy(ctx, c.operators[newest], stored); err != nil {
		return nil, err
	}
	if err := c.rollOut(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Policy returns the MachineConfiguration as last applied, with managedFields and without
// status.
func (c *Cluster) Policy() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.policy.applied)
}

// Rollouts returns the reports since the last call.
func (c *Cluster) Rollouts() []Rollout {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.rollouts
	c.rollouts = nil
	return taken
}

// Edit changes the text of an applied MachineConfig and updates the nodes, for objects that
// the renderer does not produce.
func (c *Cluster) Edit(ctx context.Context, name string, edit func([]byte) []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, applied := c.configs[name]
	if !applied {
		return fmt.Errorf("edit machineconfig %s: it is not there", name)
	}
	after := edit(slices.Clone(before))
	if err := c.validator.MachineConfig(after); err != nil {
		return err
	}
	c.configs[name] = after
	return c.rollOut(ctx)
}

// Pause delays changes of the pool, as its spec.paused does.
func (c *Cluster) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = true
}

// Resume ends a pause. All changes come in one update.
func (c *Cluster) Resume(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = false
	return c.rollOut(ctx)
}

// rollOut applies the pool's configuration to one node after another, as the
// machine-config-controller does with one unavailable node at a time, and stops at the first
// degraded node. Each daemon waits until the operator has observed the applied policy
// (pkg/daemon/update.go, calculatePostConfigChangeNodeDisruptionAction).
func (c *Cluster) rollOut(ctx context.Context) error {
	rendered, err := c.render(ctx)
	if err != nil {
		return err
	}
	c.rendered = rendered[newest].Name
	if c.paused {
		return nil
	}
	if err := c.policy.observe(ctx); err != nil {
		return err
	}
	degraded := false
	for _, n := range c.nodes {
		n.Daemon.Policy = mcd.Policy(c.policy.active)
		r := Rollout{Node: n.Name, Report: n.Daemon.Update(ctx, rendered[n.Daemon.Flavour.Release()])}
		r.Drift = n.Daemon.Drift(ctx)
		c.rollouts = append(c.rollouts, r)
		if degraded = r.Report.Degraded != nil; degraded {
			break // a degraded node is the pool's state, not a failed command
		}
	}
	if !degraded {
		c.updated = slices.Sorted(maps.Keys(c.configs))
	}
	return nil
}

// render returns the pool's configuration of each release. Without MachineConfigs it is empty.
func (c *Cluster) render(ctx context.Context) (map[oracle.Release]mcd.Rendered, error) {
	objects := slices.Concat(c.base, slices.Collect(maps.Values(c.configs)))
	if len(objects) == 0 {
		return nil, nil
	}
	all := map[oracle.Release]mcd.Rendered{}
	for release, operator := range c.operators {
		config, err := operator.Render(ctx, objects...)
		if err != nil {
			return nil, fmt.Errorf("render the pool's configuration: %w", err)
		}
		if all[release], err = mcd.Read(config); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// checkNodes returns an error unless every node has the pool's configuration.
func (c *Cluster) checkNodes() error {
	var errs []error
	for _, r := range c.rollouts {
		if r.Report.Degraded != nil {
			errs = append(errs, fmt.Errorf("node %s is degraded: %w", r.Node, r.Report.Degraded))
		}
		if r.Report.Rebooted {
			errs = append(errs, fmt.Errorf("node %s needs a reboot", r.Node))
		}
		if r.Drift != nil {
			errs = append(errs, fmt.Errorf("node %s has drifted: %w", r.Node, r.Drift))
		}
	}
	return errors.Join(errs...)
}

func (c *Cluster) node(name string) (Node, error) {
	i := slices.IndexFunc(c.nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return Node{}, fmt.Errorf("there is no node %s", name)
	}
	return c.nodes[i], nil
}
