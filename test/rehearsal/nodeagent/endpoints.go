// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// manager is the value of the label endpointslice.kubernetes.io/managed-by.
const manager = "nodeagent.rehearsal"

// publish creates, updates and removes the EndpointSlices of the solvers' Services.
func (a *Agent) publish(ctx context.Context) error {
	services, err := a.services.List(solvers())
	if err != nil {
		return err
	}
	var errs []error
	current := map[string]bool{}
	for _, s := range services {
		current[s.Namespace+"/"+s.Name] = true
		want, err := a.slice(s)
		if err == nil {
			err = a.apply(ctx, want)
		}
		errs = append(errs, err)
	}
	existing, err := a.slices.List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelManagedBy: manager}))
	if err != nil {
		return err
	}
	for _, one := range existing {
		if current[one.Namespace+"/"+one.Name] {
			continue
		}
		err := a.client.DiscoveryV1().EndpointSlices(one.Namespace).Delete(ctx, one.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("remove EndpointSlice %s: %w", one.Name, err))
		}
	}
	return errors.Join(errs...)
}

// slice returns the EndpointSlice of a Service. Solver Services have one Pod.
func (a *Agent) slice(s *corev1.Service) (*discoveryv1.EndpointSlice, error) {
	pods, err := a.pods.Pods(s.Namespace).List(labels.SelectorFromSet(s.Spec.Selector))
	if err != nil {
		return nil, err
	}
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.Name, Namespace: s.Namespace,
			Labels:          map[string]string{discoveryv1.LabelServiceName: s.Name, discoveryv1.LabelManagedBy: manager},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, corev1.SchemeGroupVersion.WithKind("Service"))},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	if a.node.Addresses.Both()[0].Is6() {
		out.AddressType = discoveryv1.AddressTypeIPv6
	}
	for _, p := range pods {
		c := a.running[p.UID]
		if c == nil || p.DeletionTimestamp != nil || len(s.Spec.Ports) == 0 {
			continue
		}
		address, err := netip.ParseAddr(p.Status.PodIP)
		if err != nil {
			continue // its status follows
		}
		ready, port, protocol := true, int32(c.port), corev1.ProtocolTCP //nolint:gosec // a port
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			NodeName: &a.node.Name,
		})
		out.Ports = []discoveryv1.EndpointPort{{Name: &s.Spec.Ports[0].Name, Port: &port, Protocol: &protocol}}
	}
	return out, nil
}

// apply creates or updates an EndpointSlice.
func (a *Agent) apply(ctx context.Context, want *discoveryv1.EndpointSlice) error {
	client := a.client.DiscoveryV1().EndpointSlices(want.Namespace)
	current, err := a.slices.EndpointSlices(want.Namespace).Get(want.Name)
	if apierrors.IsNotFound(err) {
		if _, err = client.Create(ctx, want, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			return nil // the cache is behind: an event follows
		}
	} else if err == nil && (!equality.Semantic.DeepEqual(current.Endpoints, want.Endpoints) ||
		!equality.Semantic.DeepEqual(current.Ports, want.Ports)) {
		next := current.DeepCopy()
		next.Endpoints, next.Ports = want.Endpoints, want.Ports
		_, err = client.Update(ctx, next, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("publish the endpoints of Service %s: %w", want.Name, err)
	}
	return nil
}
