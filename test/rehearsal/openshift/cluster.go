// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	rehearsed "github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	hosts "github.com/http01-proxyd/http01-proxyd/test/support/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	annotations = "machineconfiguration.openshift.io/"
	pool        = "master"

	daemonUnit = "machine-config-daemon.service"

	// rolloutLimit bounds an update of all nodes, each with a reboot.
	rolloutLimit = 10 * time.Minute
)

// Cluster is three control-plane hosts whose configuration OpenShift's own programs manage.
type Cluster struct {
	hosts    *hosts.Cluster // nil: the pools have no nodes
	lab      *lab.Lab
	api      *rehearsed.Cluster
	programs Programs
	client   dynamic.Interface

	agents *errgroup.Group
	stop   context.CancelFunc

	mu   sync.Mutex
	logs []string // of the agents
}

// Start starts the API server, the operator and the controller on the gateway of the hosts' lab, and the
// daemon on each host. When it returns, all nodes have the pool's configuration, with which they booted.
// The caller must Close it before the hosts.
func Start(ctx context.Context, h *hosts.Cluster, p Programs) (*Cluster, error) {
	c := &Cluster{hosts: h, lab: h.Lab, programs: p}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, fmt.Errorf("logs: %s", c.Logs(ctx)), c.Close())
	}
	return c, nil
}

// StartControllers starts the operator and the controller beside an API server on the gateway of a lab,
// without a node. Close also closes the API server.
func StartControllers(ctx context.Context, api *rehearsed.Cluster, p Programs) (*Cluster, error) {
	c := &Cluster{lab: api.Lab, api: api, programs: p}
	none := registry{Name: "registry.example.com", CA: string(api.Trust), PullSecret: "{}"}
	if _, err := c.startControllers(ctx, none); err != nil {
		return nil, errors.Join(err, fmt.Errorf("logs: %s", c.Logs(ctx)), c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	pullSecret, err := c.hosts.Registry.Authfile()
	if err != nil {
		return err
	}
	if c.api, err = rehearsed.StartAPI(ctx, c.lab, c.lab.Gateway, c.programs.Programs); err != nil {
		return err
	}
	running, err := c.startControllers(ctx, registry{
		Name: c.hosts.Registry.Name, CA: c.hosts.Registry.CA(), PullSecret: pullSecret,
	})
	if err != nil {
		return err
	}
	if err := c.awaitRendered(ctx); err != nil {
		return err
	}
	if err := c.hosts.Each(ctx, c.prepareHost); err != nil {
		return err
	}
	// The first update concerns all hosts at once.
	if err := c.setMaxUnavailable(ctx, len(c.hosts.ControlPlane)); err != nil {
		return err
	}
	for _, m := range c.hosts.ControlPlane {
		if err := c.createNode(ctx, m.Name); err != nil {
			return err
		}
		c.agents.Go(func() error { return c.kubelet(running, m) })
	}
	if err := c.CreatePods(ctx); err != nil {
		return err
	}
	if err := c.hosts.Each(ctx, func(ctx context.Context, _ int, m *host.Host) error {
		_, err := m.Run(ctx, "systemctl", "enable", "--now", daemonUnit)
		return err
	}); err != nil {
		return err
	}
	if err := c.AwaitUpdated(ctx); err != nil {
		return err
	}
	if drained, err := c.Drained(ctx); err != nil || drained != len(c.hosts.ControlPlane) {
		return fmt.Errorf("the first update drained %d of %d nodes: %w", drained, len(c.hosts.ControlPlane), err)
	}
	if err := c.setMaxUnavailable(ctx, 1); err != nil {
		return err
	}
	return c.hosts.AwaitVIPs(ctx)
}

// Close stops the agents. The lab stops the programs.
func (c *Cluster) Close() error {
	if c.stop != nil {
		c.stop()
		_ = c.agents.Wait() // they end without an error
	}
	if c.api != nil {
		return c.api.Close()
	}
	return nil
}

func (c *Cluster) log(format string, a ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logs = append(c.logs, time.Now().Format(time.TimeOnly)+" "+fmt.Sprintf(format, a...))
}

// Logs returns the last lines of the programs' and the daemons' logs.
func (c *Cluster) Logs(ctx context.Context) string {
	var all strings.Builder
	c.mu.Lock()
	fmt.Fprintf(&all, "--- agents\n%s\n", strings.Join(c.logs[max(0, len(c.logs)-20):], "\n"))
	c.mu.Unlock()
	all.WriteString(c.lab.Logs())
	if c.hosts == nil {
		return all.String()
	}
	for _, m := range c.hosts.ControlPlane {
		fmt.Fprintf(&all, "--- daemon on %s\n%s\n", m, c.DaemonLog(ctx, m, 60))
	}
	return all.String()
}

// DaemonLog returns the last lines of the daemon's log.
func (c *Cluster) DaemonLog(ctx context.Context, m *host.Host, lines int) string {
	out, err := m.Run(ctx, "journalctl", "--no-pager", "--output=cat", "--unit="+daemonUnit,
		fmt.Sprintf("--lines=%d", lines))
	if err != nil {
		out += err.Error()
	}
	return out
}

// startControllers creates the objects, and starts the operator and the controller. It returns the context of
// the agents.
func (c *Cluster) startControllers(ctx context.Context, r registry) (context.Context, error) {
	var err error
	if c.client, err = dynamic.NewForConfig(c.api.Config); err != nil {
		return nil, fmt.Errorf("create the client of the API: %w", err)
	}
	if err := c.createObjects(ctx, r); err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	c.agents, running = errgroup.WithContext(running)
	c.agents.Go(func() error { return c.workloads(running) })
	return running, c.startPrograms()
}

// startPrograms starts the operator and the controller.
func (c *Cluster) startPrograms() error {
	node := c.lab.Gateway
	kubeconfig := filepath.Join(node.Dir, "kubeconfig")
	if err := c.api.WriteKubeconfig(kubeconfig, c.api.Config.Host); err != nil {
		return err
	}
	images := filepath.Join(node.Dir, "images.json")
	if err := os.WriteFile(images, fmt.Appendf(nil, `{"releaseVersion": %[1]q, "machineConfigOperator": %[2]q,
		"infraImage": %[2]q, "keepalivedImage": %[2]q, "corednsImage": %[2]q, "haproxyImage": %[2]q,
		"baremetalRuntimeCfgImage": %[2]q, "oauthProxy": %[2]q, "kubeRbacProxy": %[2]q}`,
		c.programs.Release, placeholder), 0o600); err != nil {
		return fmt.Errorf("write the images of the operator: %w", err)
	}
	common := []string{"start", "--kubeconfig=" + kubeconfig, "--payload-version=" + c.programs.Release, "--v=2"}
	for _, command := range []lab.Command{
		{
			Name: "machine-config-operator", Path: c.programs.Operator,
			Args: append(slices.Clone(common), "--images-json="+images, "--operator-image="+placeholder,
				"--metrics-listen-address=127.0.0.1:8799"),
		},
		{
			Name: "machine-config-controller", Path: c.programs.Controller,
			Args: append(slices.Clone(common), "--templates="+c.programs.Templates,
				"--resourcelock-namespace="+operatorNamespace, "--metrics-listen-address=127.0.0.1:8797"),
		},
	} {
		if _, err := node.Start(command); err != nil {
			return err
		}
	}
	return nil
}

// finding matches a finding in the output of preflight.
var finding = regexp.MustCompile(`(?m)^(?:Problem|Warning): +[✗!] \[([a-z-]+)\] `)

// Findings returns the IDs in the output of preflight.
func Findings(output string) []string {
	ids := []string{}
	for _, found := range finding.FindAllStringSubmatch(output, -1) {
		ids = append(ids, found[1])
	}
	return ids
}

// Resource returns a resource of the machine-config-operator.
func Resource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "machineconfiguration.openshift.io", Version: "v1", Resource: name}
}

// renderedSettle is the time without a new rendered configuration after which the controllers have
// generated all MachineConfigs.
const renderedSettle = 20 * time.Second

// awaitRendered waits until the controller has rendered the pool's configuration.
func (c *Cluster) awaitRendered(ctx context.Context) error {
	last, since := "", time.Now()
	return lab.Within(ctx, 3*time.Minute, "the rendered configuration", func(ctx context.Context) error {
		name, err := c.Rendered(ctx)
		if err != nil {
			return err
		}
		if name != last {
			last, since = name, time.Now()
		}
		if last == "" || time.Since(since) < renderedSettle {
			return fmt.Errorf("the pool has the configuration %q", last)
		}
		return nil
	})
}

func (c *Cluster) setMaxUnavailable(ctx context.Context, n int) error {
	return c.PatchPool(ctx, fmt.Sprintf(`{"spec":{"maxUnavailable":%d}}`, n))
}

// PatchPool applies a merge patch to the pool.
func (c *Cluster) PatchPool(ctx context.Context, patch string) error {
	_, err := c.client.Resource(Resource("machineconfigpools")).Patch(ctx, pool, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patch the pool: %w", err)
	}
	return nil
}

func (c *Cluster) createNode(ctx context.Context, name string) error {
	_, err := c.api.Kube.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name,
		Labels: map[string]string{
			"node-role.kubernetes.io/master": "", "node-role.kubernetes.io/control-plane": "",
			"kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
		},
		Annotations: map[string]string{
			annotations + "currentConfig": before, annotations + "desiredConfig": before, annotations + "state": "Done",
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the node %s: %w", name, err)
	}
	return nil
}

// CreatePods creates a Pod on each node that has none. The controller evicts it when it drains the node.
func (c *Cluster) CreatePods(ctx context.Context) error {
	for _, m := range c.hosts.ControlPlane {
		_, err := c.api.Kube.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "workload-" + m.Name},
			Spec: corev1.PodSpec{
				NodeName: m.Name, Containers: []corev1.Container{{Name: "workload", Image: placeholder}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create a Pod on %s: %w", m.Name, err)
		}
	}
	return nil
}

// Drained returns how many nodes the controller has drained since CreatePods.
func (c *Cluster) Drained(ctx context.Context) (int, error) {
	pods, err := c.api.Kube.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("list the Pods: %w", err)
	}
	return len(c.hosts.ControlPlane) - len(pods.Items), nil
}

// Rendered returns the name of the pool's next configuration.
func (c *Cluster) Rendered(ctx context.Context) (string, error) {
	p, err := c.client.Resource(Resource("machineconfigpools")).Get(ctx, pool, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read the pool: %w", err)
	}
	name, _, err := unstructured.NestedString(p.Object, "spec", "configuration", "name")
	return name, err
}

// AwaitUpdated waits until all nodes have the pool's configuration, as documented for administrators.
func (c *Cluster) AwaitUpdated(ctx context.Context) error {
	return lab.Within(ctx, rolloutLimit, "all nodes to be updated", func(ctx context.Context) error {
		p, err := c.client.Resource(Resource("machineconfigpools")).Get(ctx, pool, metav1.GetOptions{})
		if err != nil {
			return err
		}
		wanted, _, _ := unstructured.NestedString(p.Object, "spec", "configuration", "name")
		reached, _, _ := unstructured.NestedString(p.Object, "status", "configuration", "name")
		ready, _, _ := unstructured.NestedInt64(p.Object, "status", "readyMachineCount")
		if wanted == "" || wanted != reached || int(ready) != len(c.hosts.ControlPlane) {
			return fmt.Errorf("the pool is at %s with %d ready nodes, and has to reach %s: %s", reached, ready, wanted,
				c.nodeStates(ctx))
		}
		return nil
	})
}

// NodeState returns the state that the daemon of a node reports, and its reason.
func (c *Cluster) NodeState(ctx context.Context, name string) (state, reason string, err error) {
	n, err := c.api.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", "", fmt.Errorf("read the node %s: %w", name, err)
	}
	return n.Annotations[annotations+"state"], n.Annotations[annotations+"reason"], nil
}

// AwaitRendered waits until the pool's next configuration contains a MachineConfig, or no longer.
func (c *Cluster) AwaitRendered(ctx context.Context, config string, contained bool) error {
	return lab.Eventually(ctx, "the pool to render "+config, func(ctx context.Context) error {
		p, err := c.client.Resource(Resource("machineconfigpools")).Get(ctx, pool, metav1.GetOptions{})
		if err != nil {
			return err
		}
		sources, _, _ := unstructured.NestedSlice(p.Object, "spec", "configuration", "source")
		found := slices.ContainsFunc(sources, func(source any) bool {
			named, _ := source.(map[string]any)
			return named["name"] == config
		})
		if found != contained {
			return fmt.Errorf("the pool renders %v", sources)
		}
		return nil
	})
}

// AwaitHeldBack waits until the controller has examined the pool with another configuration than the nodes' one,
// because a node is degraded, and has given it to no node.
func (c *Cluster) AwaitHeldBack(ctx context.Context) error {
	return lab.Eventually(ctx, "the controller to hold the update back", func(ctx context.Context) error {
		p, err := c.client.Resource(Resource("machineconfigpools")).Get(ctx, pool, metav1.GetOptions{})
		if err != nil {
			return err
		}
		wanted, _, _ := unstructured.NestedString(p.Object, "spec", "configuration", "name")
		observed, _, _ := unstructured.NestedInt64(p.Object, "status", "observedGeneration")
		if observed != p.GetGeneration() {
			return fmt.Errorf("it has observed the generation %d of %d", observed, p.GetGeneration())
		}
		nodes, err := c.api.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range nodes.Items {
			if n.Annotations[annotations+"desiredConfig"] == wanted {
				return fmt.Errorf("%s gets %s", n.Name, wanted)
			}
		}
		return nil
	})
}

// nodeStates returns what the daemons report, for messages.
func (c *Cluster) nodeStates(ctx context.Context) string {
	nodes, err := c.api.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, n := range nodes.Items {
		all = append(all, fmt.Sprintf("%s %s at %s (%s)", n.Name, n.Annotations[annotations+"state"],
			n.Annotations[annotations+"currentConfig"], n.Annotations[annotations+"reason"]))
	}
	return strings.Join(all, ", ")
}
