// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Master is a node with keepalived, on which tests start the service.
type Master struct {
	*Node
	keepalived

	Index     int
	unplugged atomic.Bool
}

func newMaster(n *Node, index int, link string, instances []VRRPInstance) *Master {
	return &Master{Node: n, Index: index, keepalived: keepalived{node: n, link: link, instances: instances}}
}

// Unplug disconnects the node's cable. The node's link loses the carrier and keeps its
// addresses, as on a real machine.
func (m *Master) Unplug(ctx context.Context) error {
	if err := m.cable(ctx, "down"); err != nil {
		return err
	}
	m.unplugged.Store(true)
	return nil
}

// Plug reconnects the cable.
func (m *Master) Plug(ctx context.Context) error {
	if err := m.cable(ctx, "up"); err != nil {
		return err
	}
	m.unplugged.Store(false)
	return nil
}

func (m *Master) cable(ctx context.Context, state string) error {
	if _, err := m.lab.Gateway.Run(ctx, "ip", "link", "set", m.Name, state); err != nil {
		return fmt.Errorf("set the cable of %s %s: %w", m.Name, state, err)
	}
	return nil
}
