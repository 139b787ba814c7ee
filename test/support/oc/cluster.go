// SPDX-License-Identifier: Apache-2.0

package oc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/http01-proxyd/http01-proxyd/test/support/judge"
	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
)

// Node is a host of the pool master.
type Node struct {
	Name   string
	Daemon *mcd.Daemon
}

// Rollout is what happened on one node when the pool's configuration changed.
type Rollout struct {
	Node   string
	Report mcd.Report
	Drift  error // of the node's files, right after it
}

// Cluster is what oc speaks to. Run may be called from several goroutines; one
// command runs at a time.
type Cluster struct {
	judge *judge.Validator
	nodes []Node
	base  [][]byte // MachineConfigs that were there before

	mu       sync.Mutex
	policy   policy            // MachineConfiguration "cluster"
	configs  map[string][]byte // applied MachineConfigs, by name
	rollouts []Rollout
	updating bool // the pool has changed and nobody has waited for it yet
	paused   bool // the pool: its nodes keep what they have
}

// New makes a cluster and brings the base configuration to its nodes. The policy
// is its MachineConfiguration, as an admin has applied it.
func New(ctx context.Context, policy []byte, nodes []Node, base ...[]byte) (*Cluster, error) {
	j, err := judge.Load(ctx)
	if err != nil {
		return nil, err
	}
	c := &Cluster{judge: j, nodes: nodes, base: base, configs: map[string][]byte{}}
	stored, err := j.Apply(nil, policy, defaultManager, false)
	if err != nil {
		return nil, fmt.Errorf("the policy to begin with: %w", err)
	}
	c.policy = newPolicy(stored)
	if err := c.rollOut(ctx); err != nil {
		return nil, err
	}
	c.updating = false
	return c, nil
}

// Policy is the MachineConfiguration as it was applied last, with managedFields
// and without status.
func (c *Cluster) Policy() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.policy.applied)
}

// Rollouts takes the reports since the last call.
func (c *Cluster) Rollouts() []Rollout {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.rollouts
	c.rollouts = nil
	return taken
}

// Edit changes the text of an applied MachineConfig and brings it to the nodes,
// for what no renderer would make.
func (c *Cluster) Edit(ctx context.Context, name string, edit func([]byte) []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, applied := c.configs[name]
	if !applied {
		return fmt.Errorf("edit machineconfig %s: it is not there", name)
	}
	after := edit(slices.Clone(before))
	if err := c.judge.MachineConfig(after); err != nil {
		return err
	}
	c.configs[name] = after
	return c.rollOut(ctx)
}

// Pause keeps changes of the pool from its nodes, as its spec.paused does.
func (c *Cluster) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = true
}

// Resume ends a pause: all that has changed meanwhile comes in one update.
func (c *Cluster) Resume(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = false
	return c.rollOut(ctx)
}

// rollOut brings the pool's configuration to node after node, as the
// machine-config-controller does with one unavailable node at a time, and stops
// at the first that is degraded. The daemons go by the policy that is in force
// when it begins; by its end, minutes later, the operator has taken up what was
// applied.
func (c *Cluster) rollOut(ctx context.Context) error {
	if c.paused {
		return nil
	}
	objects := slices.Clone(c.base)
	for _, name := range slices.Sorted(maps.Keys(c.configs)) {
		objects = append(objects, c.configs[name])
	}
	rendered, err := mcd.Merge(objects...)
	if err != nil {
		return fmt.Errorf("render the pool's configuration: %w", err)
	}
	inForce, err := mcd.ReadPolicy(c.policy.inForce)
	if err != nil {
		return err
	}
	defer c.policy.observe()
	c.updating = true
	for _, n := range c.nodes {
		n.Daemon.Policy = inForce
		r := Rollout{Node: n.Name, Report: n.Daemon.Update(ctx, rendered)}
		r.Drift = n.Daemon.Drift(ctx)
		c.rollouts = append(c.rollouts, r)
		if r.Report.Degraded != nil {
			break
		}
	}
	return nil // a degraded node is the pool's state and fails no command
}

// checkNodes says whether every node has what the pool asks for.
func (c *Cluster) checkNodes() error {
	var errs []error
	for _, r := range c.rollouts {
		if r.Report.Degraded != nil {
			errs = append(errs, fmt.Errorf("node %s is degraded: %w", r.Node, r.Report.Degraded))
		}
		if r.Report.Rebooted {
			errs = append(errs, fmt.Errorf("node %s was to be rebooted", r.Node))
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
