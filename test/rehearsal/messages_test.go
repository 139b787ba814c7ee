// SPDX-License-Identifier: Apache-2.0

package rehearsal_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	cmacme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/client/informers/externalversions"
	acmelisters "github.com/cert-manager/cert-manager/pkg/client/listers/acme/v1"
	cmlisters "github.com/cert-manager/cert-manager/pkg/client/listers/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
)

// message is a text that cert-manager wrote to an object, or to an event about it.
type message struct{ kind, name, text string }

func (m message) String() string { return fmt.Sprintf("%s %s: %s", m.kind, m.name, m.text) }

// messages keeps cert-manager's texts, and the current objects.
type messages struct {
	certificates cmlisters.CertificateLister
	issuers      cmlisters.ClusterIssuerLister
	requests     cmlisters.CertificateRequestLister
	orders       acmelisters.OrderLister
	challenges   acmelisters.ChallengeLister

	mu  sync.Mutex
	all []message // in order, each once
}

// watch keeps the texts until ctx ends.
func watch(ctx context.Context, c *cluster.Cluster) (*messages, error) {
	factory := externalversions.NewSharedInformerFactory(c.CertManager, 0)
	events := informers.NewSharedInformerFactory(c.Kube, 0)
	certificates, issuers, requests := factory.Certmanager().V1().Certificates(),
		factory.Certmanager().V1().ClusterIssuers(), factory.Certmanager().V1().CertificateRequests()
	orders, challenges := factory.Acme().V1().Orders(), factory.Acme().V1().Challenges()
	m := &messages{
		certificates: certificates.Lister(), issuers: issuers.Lister(), requests: requests.Lister(),
		orders: orders.Lister(), challenges: challenges.Lister(),
	}
	for _, informer := range []cache.SharedIndexInformer{
		certificates.Informer(), issuers.Informer(), requests.Informer(), orders.Informer(), challenges.Informer(),
		events.Core().V1().Events().Informer(),
	} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: m.see, UpdateFunc: func(_, object any) { m.see(object) },
		}); err != nil {
			return nil, fmt.Errorf("watch cert-manager's objects: %w", err)
		}
	}
	factory.Start(ctx.Done())
	events.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	events.WaitForCacheSync(ctx.Done())
	return m, nil
}

// see takes a version of an object.
func (m *messages) see(object any) {
	switch o := object.(type) {
	case *cmapi.ClusterIssuer:
		for _, c := range o.Status.Conditions {
			m.add("ClusterIssuer", o.Name, c.Message)
		}
	case *cmapi.Certificate:
		for _, c := range o.Status.Conditions {
			m.add("Certificate", o.Name, c.Message)
		}
	case *cmapi.CertificateRequest:
		for _, c := range o.Status.Conditions {
			m.add("CertificateRequest", o.Name, c.Message)
		}
	case *cmacme.Order:
		m.add("Order", o.Name, o.Status.Reason)
	case *cmacme.Challenge:
		m.add("Challenge", o.Name, o.Status.Reason)
	case *corev1.Event:
		m.add("event of "+o.InvolvedObject.Kind, o.InvolvedObject.Name, o.Message)
	}
}

func (m *messages) add(kind, name, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := (message{kind, name, text}); text != "" && !slices.Contains(m.all, one) {
		m.all = append(m.all, one)
	}
}

// find returns the first text that matches an expression, of objects whose names have a
// prefix.
func (m *messages) find(prefix string, expression *regexp.Regexp) (message, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.all {
		if strings.HasPrefix(one.name, prefix) && expression.MatchString(one.text) {
			return one, true
		}
	}
	return message{}, false
}

// of returns the texts of objects whose names have a prefix.
func (m *messages) of(prefix string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var text strings.Builder
	for _, one := range m.all {
		if strings.HasPrefix(one.name, prefix) {
			fmt.Fprintln(&text, one)
		}
	}
	return text.String()
}
