// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cert-manager/cert-manager/pkg/client/clientset/versioned"
	"github.com/cert-manager/cert-manager/pkg/client/informers/externalversions"
	acmelisters "github.com/cert-manager/cert-manager/pkg/client/listers/acme/v1"
	cmlisters "github.com/cert-manager/cert-manager/pkg/client/listers/certmanager/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/internal/loop"
)

// CollectGarbage deletes the Orders of CertificateRequests and the Challenges of Orders that
// do not exist any more, as kube-controller-manager does, until Close.
func (c *Cluster) CollectGarbage() {
	c.run("garbage", func(log *slog.Logger) func(context.Context) error {
		return (&garbageCollector{client: c.CertManager, log: log}).run
	})
}

type garbageCollector struct {
	client versioned.Interface
	log    *slog.Logger

	requests   cmlisters.CertificateRequestLister
	orders     acmelisters.OrderLister
	challenges acmelisters.ChallengeLister
}

func (g *garbageCollector) run(ctx context.Context) error {
	factory := externalversions.NewSharedInformerFactory(g.client, 0)
	requests, orders, challenges := factory.Certmanager().V1().CertificateRequests(), factory.Acme().V1().Orders(),
		factory.Acme().V1().Challenges()
	g.requests, g.orders, g.challenges = requests.Lister(), orders.Lister(), challenges.Lister()
	watched := []cache.SharedIndexInformer{requests.Informer(), orders.Informer(), challenges.Informer()}
	return loop.Run(ctx, g.log, factory, watched, g.collect)
}

// collect queries the API for each owner that is not in the cache, which can be behind.
func (g *garbageCollector) collect(ctx context.Context) (time.Duration, error) {
	orders, err := g.orders.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, o := range orders {
		owner, err := orphaned(o, func(name string) (metav1.Object, error) {
			if r, err := g.requests.CertificateRequests(o.Namespace).Get(name); err == nil && metav1.IsControlledBy(o, r) {
				return r, nil
			}
			return g.client.CertmanagerV1().CertificateRequests(o.Namespace).Get(ctx, name, metav1.GetOptions{})
		})
		if owner != "" {
			g.log.Info("deleting an Order", slog.String("order", o.Name), slog.String("owner", owner))
			err = ifThere(g.client.AcmeV1().Orders(o.Namespace).Delete(ctx, o.Name, exactly(o)))
		}
		errs = append(errs, err)
	}
	challenges, err := g.challenges.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	for _, c := range challenges {
		owner, err := orphaned(c, func(name string) (metav1.Object, error) {
			if o, err := g.orders.Orders(c.Namespace).Get(name); err == nil && metav1.IsControlledBy(c, o) {
				return o, nil
			}
			return g.client.AcmeV1().Orders(c.Namespace).Get(ctx, name, metav1.GetOptions{})
		})
		if owner != "" && c.DeletionTimestamp == nil {
			g.log.Info("deleting a Challenge", slog.String("challenge", c.Name), slog.String("owner", owner))
			err = ifThere(g.client.AcmeV1().Challenges(c.Namespace).Delete(ctx, c.Name, exactly(c)))
		}
		errs = append(errs, err)
	}
	return 0, errors.Join(errs...)
}

// orphaned returns the name of the owner of an object if it does not exist any more.
func orphaned(object metav1.Object, get func(name string) (metav1.Object, error)) (string, error) {
	owner := metav1.GetControllerOf(object)
	if owner == nil {
		return "", nil
	}
	current, err := get(owner.Name)
	switch {
	case apierrors.IsNotFound(err):
		return owner.Name, nil
	case err != nil:
		return "", fmt.Errorf("read the owner of %s: %w", object.GetName(), err)
	case current.GetUID() != owner.UID:
		return owner.Name, nil
	}
	return "", nil
}

// exactly restricts a deletion to an object, which another one with its name may follow.
func exactly(object metav1.Object) metav1.DeleteOptions {
	uid := object.GetUID()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

// ifThere ignores that the object of a deletion does not exist.
func ifThere(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
