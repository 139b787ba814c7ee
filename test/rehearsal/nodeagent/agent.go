// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	cmacme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/internal/loop"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// The ports of the solvers, which share the addresses of the node.
const (
	firstPort = 20000
	portCount = 10000
)

// HoldAnnotation on a Pod delays the start of its container until the annotation is
// removed, as an image that cannot be pulled does.
const HoldAnnotation = "nodeagent.rehearsal/hold"

// portFlag is the flag of the solver with its port.
const portFlag = "--listen-port="

// Agent runs solver Pods on a node.
type Agent struct {
	client kubernetes.Interface
	node   *lab.Node
	solver string // path of the program
	log    *slog.Logger

	pods     corelisters.PodLister
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister

	running map[types.UID]*container
	started int // number of containers so far
}

// container is the running container of a Pod.
type container struct {
	port    int
	process *lab.Process
}

// New returns an agent for a node. solver is the path of the solver's program.
func New(client kubernetes.Interface, node *lab.Node, solver string, log *slog.Logger) *Agent {
	return &Agent{client: client, node: node, solver: solver, log: log, running: map[types.UID]*container{}}
}

// Run runs the Pods until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(a.client, 0)
	pods, services, endpoints := factory.Core().V1().Pods(), factory.Core().V1().Services(),
		factory.Discovery().V1().EndpointSlices()
	a.pods, a.services, a.slices = pods.Lister(), services.Lister(), endpoints.Lister()
	watched := []cache.SharedIndexInformer{pods.Informer(), services.Informer(), endpoints.Informer()}
	return loop.Run(ctx, a.log, factory, watched, a.reconcile)
}

// solvers selects the objects of cert-manager's solvers.
func solvers() labels.Selector {
	return labels.SelectorFromSet(labels.Set{cmacme.SolverIdentificationLabelKey: "true"})
}

func (a *Agent) reconcile(ctx context.Context) (time.Duration, error) {
	pods, err := a.pods.List(solvers())
	if err != nil {
		return 0, err
	}
	errs := []error{a.stopRemoved(ctx, pods)}
	for _, p := range pods {
		switch {
		case p.DeletionTimestamp != nil:
			errs = append(errs, a.remove(ctx, p))
		case a.running[p.UID] == nil && p.Annotations[HoldAnnotation] == "":
			errs = append(errs, a.start(ctx, p))
		}
	}
	return 0, errors.Join(append(errs, a.publish(ctx))...)
}

// stopRemoved stops the containers of Pods that do not exist any more.
func (a *Agent) stopRemoved(ctx context.Context, pods []*corev1.Pod) error {
	var errs []error
	for uid := range a.running {
		if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.UID == uid }) {
			errs = append(errs, a.stop(ctx, uid))
		}
	}
	return errors.Join(errs...)
}

func (a *Agent) stop(ctx context.Context, uid types.UID) error {
	c := a.running[uid]
	if c == nil {
		return nil
	}
	if err := c.process.Kill(ctx); err != nil {
		return err
	}
	delete(a.running, uid)
	return nil
}

// remove stops a deleted Pod and removes its object.
func (a *Agent) remove(ctx context.Context, p *corev1.Pod) error {
	if err := a.stop(ctx, p.UID); err != nil {
		return err
	}
	now := int64(0)
	err := a.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove Pod %s: %w", p.Name, err)
	}
	a.log.Info("removed a Pod", slog.String("pod", p.Name))
	return nil
}

// start binds a Pod to the node, starts its container and reports its status.
func (a *Agent) start(ctx context.Context, p *corev1.Pod) error {
	pods := a.client.CoreV1().Pods(p.Namespace)
	if p.Spec.NodeName == "" {
		err := pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: a.node.Name},
		}, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // removed, or bound: an event follows
		}
		if err != nil {
			return fmt.Errorf("bind Pod %s: %w", p.Name, err)
		}
	}
	port := firstPort + a.started%portCount
	a.started++
	process, err := a.node.Start(lab.Command{Name: p.Name, Path: a.solver, Args: withPort(p.Spec.Containers[0].Args,
		port)})
	if err != nil {
		return err
	}
	a.running[p.UID] = &container{port: port, process: process}
	status, err := json.Marshal(map[string]any{"status": a.status(p)})
	if err != nil {
		return fmt.Errorf("encode the status of Pod %s: %w", p.Name, err)
	}
	if _, err := pods.Patch(ctx, p.Name, types.StrategicMergePatchType, status, metav1.PatchOptions{},
		"status"); err != nil && !apierrors.IsNotFound(err) {
		return errors.Join(fmt.Errorf("report the status of Pod %s: %w", p.Name, err), a.stop(ctx, p.UID))
	}
	a.log.Info("started a Pod", slog.String("pod", p.Name), slog.Int("port", port))
	return nil
}

// withPort returns the arguments of a solver with another port.
func withPort(args []string, port int) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if strings.HasPrefix(arg, portFlag) {
			out[i] = portFlag + strconv.Itoa(port)
		}
	}
	return out
}

// status returns the status of a Pod whose container has just started.
func (a *Agent) status(p *corev1.Pod) corev1.PodStatus {
	now := metav1.Now()
	status := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now}
	for _, kind := range []corev1.PodConditionType{
		corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady,
		corev1.PodReady,
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: kind, Status: corev1.ConditionTrue,
			LastTransitionTime: now,
		})
	}
	for _, address := range a.node.Addresses.Both() {
		status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: address.String()})
		status.HostIPs = append(status.HostIPs, corev1.HostIP{IP: address.String()})
	}
	status.PodIP, status.HostIP = status.PodIPs[0].IP, status.HostIPs[0].IP
	started := true
	for _, c := range p.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: &started,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return status
}
