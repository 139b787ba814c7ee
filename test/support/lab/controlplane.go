// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"sync/atomic"
)

// ControlPlaneNode is a node with keepalived, on which tests start the service.
type ControlPlaneNode struct {
	*Node
	keepalived

	Index     int
	unplugged atomic.Bool
}

func newControlPlaneNode(n *Node, index int, link string, instances []VRRPInstance) *ControlPlaneNode {
	return &ControlPlaneNode{Node: n, Index: index, keepalived: keepalived{node: n, link: link, instances: instances}}
}

// Disconnect disconnects the node's cable. The node's link loses the carrier and keeps its
// addresses, as on a real machine.
func (m *ControlPlaneNode) Disconnect(ctx context.Context) error {
	if err := m.cable(ctx, "down"); err != nil {
		return err
	}
	m.unplugged.Store(true)
	return nil
}

// Connect reconnects the cable.
func (m *ControlPlaneNode) Connect(ctx context.Context) error {
	if err := m.cable(ctx, "up"); err != nil {
		return err
	}
	m.unplugged.Store(false)
	return nil
}

func (m *ControlPlaneNode) cable(ctx context.Context, state string) error {
	if _, err := m.lab.Gateway.Run(ctx, "ip", "link", "set", m.Name, state); err != nil {
		return fmt.Errorf("set the cable of %s %s: %w", m.Name, state, err)
	}
	return nil
}
