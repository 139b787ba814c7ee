// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
)

// tasks is the group that owns every long-running goroutine.
type tasks struct {
	group *errgroup.Group
	ctx   context.Context // the group's own, which ends with its first error
}

func newTasks(ctx context.Context) *tasks {
	group, ctx := errgroup.WithContext(ctx)
	return &tasks{group, ctx}
}

// start runs a task that must continue until the group's context ends.
func (t *tasks) start(name string, run func(context.Context) error) {
	t.group.Go(func() error {
		if err := run(t.ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if t.ctx.Err() == nil {
			return fmt.Errorf("%s: ended unexpectedly", name)
		}
		return nil
	})
}

// wait returns when all tasks ended, with the first error.
func (t *tasks) wait() error { return t.group.Wait() }

// cleanup is a stack of what closes what was opened.
type cleanup []func()

func (c *cleanup) add(closeOne func()) { *c = append(*c, closeOne) }

// run closes everything, the latest first.
func (c *cleanup) run() {
	for _, closeOne := range slices.Backward(*c) {
		closeOne()
	}
}
