// SPDX-License-Identifier: Apache-2.0

package configagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/internal/loop"
	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
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

// secrets is the resource of the Secrets.
func secrets() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
}

const (
	pool = "master" // of the control-plane nodes
	// renderDelay is the pause of the render controller after a change of MachineConfigs
	// (machine-config-operator, pkg/controller/render/render_controller.go).
	renderDelay = 5 * time.Second
	// configNamespace contains the Secrets of named certificates.
	configNamespace = "openshift-config"
)

// Cluster is what the operators act on besides objects.
type Cluster struct {
	API     string                       // name of the API
	Install func(context.Context) error  // brings the MachineConfigs of the pool to the nodes; may be repeated
	Present func(namespace, name string) // has the API servers present the certificate of a Secret
}

// Agent acts as two of OpenShift's operators.
type Agent struct {
	client   dynamic.Interface
	operator *oracle.Operator
	cluster  Cluster
	log      *slog.Logger

	policy, config, server, secrets cache.GenericLister

	rendered  string    // name of the configuration that the nodes have
	changed   time.Time // first sight of another one
	presented string    // name of the Secret
}

// New returns an agent.
func New(client dynamic.Interface, operator *oracle.Operator, cluster Cluster, log *slog.Logger) *Agent {
	return &Agent{client: client, operator: operator, cluster: cluster, log: log}
}

// factory is the factory of the dynamic client for the loop.
type factory struct {
	dynamicinformer.DynamicSharedInformerFactory
}

func (f factory) StartWithContext(ctx context.Context) { f.Start(ctx.Done()) }

// Run acts until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	f := factory{dynamicinformer.NewDynamicSharedInformerFactory(a.client, 0)}
	var watched []cache.SharedIndexInformer
	for resource, lister := range map[schema.GroupVersionResource]*cache.GenericLister{
		policies(): &a.policy, machineResource("machineconfigs"): &a.config, apiServers(): &a.server, secrets(): &a.secrets,
	} {
		informer := f.ForResource(resource)
		*lister, watched = informer.Lister(), append(watched, informer.Informer())
	}
	return loop.Run(ctx, a.log, f, watched, a.reconcile)
}

func (a *Agent) reconcile(ctx context.Context) (time.Duration, error) {
	next, err := a.rollOut(ctx)
	return next, errors.Join(a.observePolicy(ctx), err, a.presentNamed())
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
	text, err := o.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encode the node disruption policy: %w", err)
	}
	merged, err := a.operator.Policies(ctx, text)
	if err != nil {
		return err
	}
	active, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&merged)
	if err != nil {
		return fmt.Errorf("encode the node disruption policy: %w", err)
	}
	o.Object["status"] = map[string]any{
		"observedGeneration":         o.GetGeneration(),
		"nodeDisruptionPolicyStatus": map[string]any{"clusterPolicies": active},
	}
	if _, err := a.client.Resource(policies()).UpdateStatus(ctx, o, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("activate the node disruption policy: %w", err)
	}
	a.log.Info("the policy is active", slog.Int64("generation", o.GetGeneration()))
	return nil
}

// rollOut renders the MachineConfigs of the pool, and brings a new configuration to the nodes.
func (a *Agent) rollOut(ctx context.Context) (next time.Duration, err error) {
	all, err := a.config.List(labels.SelectorFromSet(labels.Set{"machineconfiguration.openshift.io/role": pool}))
	if err != nil || len(all) == 0 {
		return 0, err
	}
	var texts [][]byte
	for _, o := range all {
		text, err := json.Marshal(o)
		if err != nil {
			return 0, fmt.Errorf("encode a MachineConfig: %w", err)
		}
		texts = append(texts, text)
	}
	config, err := a.operator.Render(ctx, texts...)
	if err != nil || config.Name == a.rendered {
		a.changed = time.Time{}
		return 0, err
	}
	if a.changed.IsZero() {
		a.changed = time.Now()
	}
	if rest := renderDelay - time.Since(a.changed); rest > 0 {
		return rest, nil
	}
	if err := a.create(ctx, config); err != nil {
		return 0, err
	}
	if err := a.configure(ctx, "spec", config.Name); err != nil {
		return 0, err
	}
	if err := a.cluster.Install(ctx); err != nil {
		return 0, fmt.Errorf("roll out: %w", err)
	}
	if err := a.configure(ctx, "status", config.Name); err != nil {
		return 0, err
	}
	a.rendered, a.changed = config.Name, time.Time{}
	a.log.Info("rolled out", slog.String("configuration", config.Name), slog.Int("machine_configs", len(all)))
	return 0, nil
}

// create creates the configuration of the pool. An earlier attempt may have created it.
func (a *Agent) create(ctx context.Context, config *mcfgv1.MachineConfig) error {
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return fmt.Errorf("encode the configuration of the pool: %w", err)
	}
	configs := machineResource("machineconfigs")
	created := &unstructured.Unstructured{Object: map[string]any{"spec": o["spec"]}}
	created.SetGroupVersionKind(configs.GroupVersion().WithKind("MachineConfig"))
	created.SetName(config.Name)
	_, err = a.client.Resource(configs).Create(ctx, created, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the configuration of the pool: %w", err)
	}
	return nil
}

// configure names the configuration of the pool in its spec, or in its status when all nodes have it.
func (a *Agent) configure(ctx context.Context, section, name string) error {
	pools := a.client.Resource(machineResource("machineconfigpools"))
	o, err := pools.Get(ctx, pool, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the pool: %w", err)
	}
	err = unstructured.SetNestedField(o.Object, name, section, "configuration", "name")
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

// presentNamed has the API servers present the certificate that the APIServer names for the API.
// After an error they keep the earlier one.
func (a *Agent) presentNamed() error {
	o, err := get(a.server, "cluster")
	if err != nil || o == nil {
		return err
	}
	var server configv1.APIServer
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &server); err != nil {
		return fmt.Errorf("read the APIServer: %w", err)
	}
	name, err := namedSecret(server.Spec.ServingCerts.NamedCertificates, a.cluster.API, func(name string) bool {
		_, err := a.secrets.ByNamespace(configNamespace).Get(name)
		return err == nil
	})
	if err != nil || name == "" || name == a.presented {
		return err
	}
	a.cluster.Present(configNamespace, name)
	a.presented = name
	return nil
}
