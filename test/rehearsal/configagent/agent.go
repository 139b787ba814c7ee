// SPDX-License-Identifier: Apache-2.0

package configagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/internal/loop"
)

// policies is the resource of the node disruption policy.
func policies() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "operator.openshift.io", Version: "v1", Resource: "machineconfigurations"}
}

// machineResource returns a resource of machine-config-operator.
func machineResource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "machineconfiguration.openshift.io", Version: "v1", Resource: name}
}

// apiServers is the resource of the APIServer.
func apiServers() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: "apiservers"}
}

// pool is the pool of the control-plane nodes.
const pool = "master"

// Agent acts as two of OpenShift's operators.
type Agent struct {
	client  dynamic.Interface
	install func(context.Context) error  // rolls the MachineConfigs out to the nodes
	present func(namespace, name string) // has the API servers present the certificate of a Secret
	log     *slog.Logger

	policy, config, server cache.GenericLister

	installed bool
	presented string // name of the Secret
}

// New returns an agent.
func New(client dynamic.Interface, install func(context.Context) error, present func(namespace, name string),
	log *slog.Logger,
) *Agent {
	return &Agent{client: client, install: install, present: present, log: log}
}

// factory is the factory of the dynamic client for the loop.
type factory struct {
	dynamicinformer.DynamicSharedInformerFactory
}

func (f factory) StartWithContext(ctx context.Context) { f.Start(ctx.Done()) }

// Run acts until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	f := factory{dynamicinformer.NewDynamicSharedInformerFactory(a.client, 0)}
	policy, config, server := f.ForResource(policies()), f.ForResource(machineResource("machineconfigs")),
		f.ForResource(apiServers())
	a.policy, a.config, a.server = policy.Lister(), config.Lister(), server.Lister()
	return loop.Run(ctx, a.log, f, []cache.SharedIndexInformer{policy.Informer(), config.Informer(), server.Informer()},
		a.reconcile)
}

func (a *Agent) reconcile(ctx context.Context) (time.Duration, error) {
	return 0, errors.Join(a.observePolicy(ctx), a.rollOut(ctx), a.presentNamed())
}

// get returns an object, or nil if it does not exist.
func get(from cache.GenericLister, name string) (*unstructured.Unstructured, error) {
	o, err := from.Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, is := o.(*unstructured.Unstructured)
	if !is {
		return nil, fmt.Errorf("%s is a %T", name, o)
	}
	return found.DeepCopy(), nil
}

// observePolicy activates the node disruption policy.
func (a *Agent) observePolicy(ctx context.Context) error {
	o, err := get(a.policy, "cluster")
	if err != nil || o == nil {
		return err
	}
	observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	if observed == o.GetGeneration() {
		return nil
	}
	policy, _, err := unstructured.NestedMap(o.Object, "spec", "nodeDisruptionPolicy")
	if err != nil {
		return fmt.Errorf("read the node disruption policy: %w", err)
	}
	o.Object["status"] = map[string]any{
		"observedGeneration":         o.GetGeneration(),
		"nodeDisruptionPolicyStatus": map[string]any{"clusterPolicies": policy},
	}
	if _, err := a.client.Resource(policies()).UpdateStatus(ctx, o, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("activate the node disruption policy: %w", err)
	}
	a.log.Info("the policy is active", slog.Int64("generation", o.GetGeneration()))
	return nil
}

// rollOut installs the MachineConfigs once.
func (a *Agent) rollOut(ctx context.Context) error {
	all, err := a.config.List(labels.SelectorFromSet(labels.Set{"machineconfiguration.openshift.io/role": pool}))
	if err != nil || len(all) == 0 || a.installed {
		return err
	}
	if err := a.configure(ctx, "spec"); err != nil {
		return err
	}
	if err := a.install(ctx); err != nil {
		return fmt.Errorf("roll out: %w", err)
	}
	a.installed = true
	a.log.Info("rolled out", slog.Int("machine_configs", len(all)))
	return a.configure(ctx, "status")
}

// configure names the configuration of the pool in its spec, or in its status when all nodes have it.
func (a *Agent) configure(ctx context.Context, section string) error {
	pools := a.client.Resource(machineResource("machineconfigpools"))
	o, err := pools.Get(ctx, pool, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the pool: %w", err)
	}
	err = unstructured.SetNestedField(o.Object, "rendered-master-1", section, "configuration", "name")
	if err == nil {
		if section == "spec" {
			_, err = pools.Update(ctx, o, metav1.UpdateOptions{})
		} else {
			_, err = pools.UpdateStatus(ctx, o, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("report the state of the pool: %w", err)
	}
	return nil
}

// presentNamed has the API servers present the certificate that the APIServer names.
func (a *Agent) presentNamed() error {
	o, err := get(a.server, "cluster")
	if err != nil || o == nil {
		return err
	}
	entries, _, err := unstructured.NestedSlice(o.Object, "spec", "servingCerts", "namedCertificates")
	if err != nil || len(entries) == 0 {
		return err
	}
	entry, _ := entries[0].(map[string]any)
	name, _, err := unstructured.NestedString(entry, "servingCertificate", "name")
	if err != nil || name == a.presented {
		return err
	}
	// Of kube-apiserver-operator, targetconfigcontroller and resourcesynccontroller.
	a.present("openshift-config", name)
	a.presented = name
	return nil
}
