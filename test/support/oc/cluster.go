// SPDX-License-Identifier: Apache-2.0

// A pool whose nodes run replayed daemons. The real machine-config-controller of a release manages only
// daemons of the same release, and no module with the controllers of 4.17 and 4.18 is served.

package oc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"sigs.k8s.io/yaml"

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
	Node string
	mcd.Report
}

// Cluster simulates the cluster behind oc. Package mcd replays the daemons of its nodes, which the real
// controller cannot manage, because they are of other releases. Run may be called from several
// goroutines; one command runs at a time.
type Cluster struct {
	// AfterNode is called after the update of each node, with its name; may be nil. It must not call Run.
	AfterNode func(ctx context.Context, node string)

	validator *validator.Validator
	operators map[oracle.Release]*oracle.Operator
	nodes     []Node
	base      [][]byte // MachineConfigs of the base configuration

	mu       sync.Mutex
	policy   policy            // MachineConfiguration "cluster"
	configs  map[string][]byte // applied MachineConfigs by name
	rendered string            // name of the pool's configuration, by the newest operator
	contents []byte            // of that configuration
	reached  string            // name of the configuration that all nodes have
	updated  []string          // its applied MachineConfigs
	rollouts []Rollout
}

// newest is the release of the operator that acts on the cluster's objects.
const newest = oracle.Newest

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

// Rollouts returns the reports since the last call.
func (c *Cluster) Rollouts() []Rollout {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.rollouts
	c.rollouts = nil
	return taken
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
	if err := c.policy.observe(ctx); err != nil {
		return err
	}
	for _, n := range c.nodes {
		n.Daemon.Policy = mcd.Policy(c.policy.active)
		r := Rollout{n.Name, n.Daemon.Update(ctx, rendered[n.Daemon.Flavour.Release()])}
		c.rollouts = append(c.rollouts, r)
		if r.Degraded != nil {
			return nil //nolint:nilerr // a degraded node is the pool's state, not a failed command
		}
		if c.AfterNode != nil {
			c.AfterNode(ctx, n.Name)
		}
	}
	c.reached, c.updated = c.rendered, slices.Sorted(maps.Keys(c.configs))
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
		if release == newest {
			if c.contents, err = yaml.Marshal(config); err != nil {
				return nil, fmt.Errorf("encode the rendered configuration: %w", err)
			}
		}
	}
	return all, nil
}

// pool returns the fields of the MachineConfigPool that apply.sh reads. Its status names the
// configuration that all nodes have.
func (c *Cluster) pool() map[string]any {
	sources := []any{}
	for _, name := range c.updated {
		sources = append(sources, map[string]any{"name": name})
	}
	return map[string]any{
		"spec":   map[string]any{"configuration": map[string]any{"name": c.rendered}},
		"status": map[string]any{"configuration": map[string]any{"name": c.reached, "source": sources}},
	}
}
