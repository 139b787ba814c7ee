// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// tasks is the one group that owns every long-running goroutine.
type tasks struct {
	group *errgroup.Group
	ctx   context.Context // the group's own, which ends with its first error
}

func newTasks(ctx context.Context) *tasks {
	group, ctx := errgroup.WithContext(ctx)
	return &tasks{group, ctx}
}

// start runs a task that has to go on until the group's context ends.
func (t *tasks) start(name string, run func(context.Context) error) {
	t.group.Go(func() error {
		if err := run(t.ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if t.ctx.Err() == nil {
			return fmt.Errorf("%s: ended although nobody had asked it to", name)
		}
		return nil
	})
}

// awaitChange returns when all tasks have ended, with the first error.
func (t *tasks) wait() error { return t.group.Wait() }
