// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Reconciler brings a system to the state of the objects. A positive duration requests
// another call after that time.
type Reconciler func(ctx context.Context) (again time.Duration, err error)

// Factory starts the informers that it has created.
type Factory interface {
	StartWithContext(ctx context.Context)
}

// item is the only item of the queue: each call covers all objects.
const item = "all"

// Run starts the informers of a factory and calls reconcile when their caches are filled
// and after each change, until ctx ends. It logs errors and then calls reconcile again.
func Run(ctx context.Context, log *slog.Logger, factory Factory, watched []cache.SharedIndexInformer,
	reconcile Reconciler,
) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer context.AfterFunc(ctx, queue.ShutDown)()
	changed := func(any) { queue.Add(item) }
	var synced []cache.InformerSynced
	for _, informer := range watched {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: changed, UpdateFunc: func(_, _ any) { queue.Add(item) }, DeleteFunc: changed,
		}); err != nil {
			return fmt.Errorf("watch objects: %w", err)
		}
		synced = append(synced, informer.HasSynced)
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // ctx has ended
	}
	queue.Add(item)
	for {
		one, ended := queue.Get()
		if ended {
			return nil
		}
		again, err := reconcile(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			log.Warn("trying again", slog.Any("error", err))
			queue.AddRateLimited(one)
		case again > 0:
			queue.AddAfter(one, again)
		default:
			queue.Forget(one)
		}
		queue.Done(one)
	}
}
