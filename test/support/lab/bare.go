// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
)

// NewBare creates nodes and nothing else: namespaces without links, addresses and
// programs, for suites that need their own small network. The nodes are in the order of
// their names. The caller must Close the lab.
func NewBare(ctx context.Context, names ...string) (*Lab, []*Node, error) {
	if err := checkPrerequisites(); err != nil {
		return nil, nil, err
	}
	l := &Lab{Topology: defaultTopology()}
	var err error
	if l.ID, l.Dir, l.lock, err = claim(); err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		n, err := newNode(ctx, l, name, Pair{})
		l.nodes = append(l.nodes, n)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("create %s: %w", name, err), l.Close())
		}
	}
	return l, l.nodes, nil
}
