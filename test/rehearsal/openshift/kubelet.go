// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
)

// kubeletInterval is the time between two reports of a kubelet.
const kubeletInterval = time.Second

// bootID returns the ID of a host's current boot.
func bootID(ctx context.Context, m *host.Host) (string, error) {
	out, err := m.Run(ctx, "cat", "/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(out), err
}

// kubelet acts as the kubelet of a host, and as the controller of node leases: a node is ready while its
// host runs. It deletes Pods that were evicted, without a container that would end first.
func (c *Cluster) kubelet(ctx context.Context, m *host.Host) error {
	reported := "nothing yet"
	for {
		id, _ := bootID(ctx, m) // "" while the host is down
		err := c.endPods(ctx, m.Name)
		if id != reported {
			failed := c.reportNode(ctx, m.Name, id)
			if failed == nil {
				c.log("the node %s reports the boot %q", m, id)
				reported = id
			}
			err = errors.Join(err, failed)
		}
		if err != nil && ctx.Err() == nil {
			c.log("kubelet of %s: %v", m, err) // it retries
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(kubeletInterval):
		}
	}
}

// reportNode reports that a node is ready, or that it is down if it has no boot ID.
func (c *Cluster) reportNode(ctx context.Context, name, bootID string) error {
	status := corev1.ConditionTrue
	if bootID == "" {
		status = corev1.ConditionUnknown
	}
	patch, err := json.Marshal(corev1.Node{Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "Lab"}},
		NodeInfo:   corev1.NodeSystemInfo{BootID: bootID, KubeletVersion: "v1.33.2"},
	}})
	if err != nil {
		return fmt.Errorf("encode the status of a node: %w", err)
	}
	_, err = c.api.Kube.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{},
		"status")
	return err
}

func (c *Cluster) endPods(ctx context.Context, node string) error {
	pods, err := c.api.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return err
	}
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil {
			continue
		}
		err = errors.Join(err, c.api.Kube.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, *metav1.NewDeleteOptions(0)))
	}
	return err
}

// workloads acts as the controllers of DaemonSets and Deployments: their Pods would be up to date. The
// operator waits for that. Its controller and its daemons run without Pods. It also acts as the
// machine-os-builder.
func (c *Cluster) workloads(ctx context.Context) error {
	for {
		err := errors.Join(c.reportWorkloads(ctx), c.reportBuild(ctx))
		if err != nil && ctx.Err() == nil {
			c.log("workloads: %v", err) // it retries
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(kubeletInterval):
		}
	}
}

func (c *Cluster) reportWorkloads(ctx context.Context) error {
	apps := c.api.Kube.AppsV1()
	daemons, err := apps.DaemonSets(operatorNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, d := range daemons.Items {
		if d.Status.ObservedGeneration == d.Generation {
			continue
		}
		d.Status = appsv1.DaemonSetStatus{ObservedGeneration: d.Generation}
		if _, err := apps.DaemonSets(operatorNamespace).UpdateStatus(ctx, &d, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	deployments, err := apps.Deployments(operatorNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, d := range deployments.Items {
		if d.Status.ObservedGeneration == d.Generation {
			continue
		}
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation}
		if _, err := apps.Deployments(operatorNamespace).UpdateStatus(ctx, &d, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}
