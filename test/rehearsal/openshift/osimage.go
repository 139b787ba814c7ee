// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"context"
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
)

// osImage is the image of each build. Since 4.20, a change of files and units needs no other image.
const osImage = "r.example.com/os@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// reportBuild acts as the machine-os-builder: if the pool has a MachineOSConfig, the image of the pool's next
// configuration is built.
func (c *Cluster) reportBuild(ctx context.Context) error {
	if c.programs.Line != oracle.Newest { // the daemon of 4.19 refuses the image on hosts without CoreOS
		return nil
	}
	configs, err := c.client.Resource(Resource("machineosconfigs")).List(ctx, metav1.ListOptions{})
	if err != nil || len(configs.Items) == 0 {
		return err
	}
	rendered, err := c.Rendered(ctx)
	if err != nil {
		return err
	}
	config, build := configs.Items[0], strings.Replace(rendered, "rendered", "build", 1)
	current, _, _ := unstructured.NestedString(config.Object, "status", "machineOSBuild", "name")
	if current == build {
		return nil
	}
	err = c.create(ctx, map[string]any{
		"apiVersion": Resource("").GroupVersion().String(), "kind": "MachineOSBuild",
		"metadata": map[string]any{"name": build},
		"spec": map[string]any{
			"machineConfig":         map[string]any{"name": rendered},
			"machineOSConfig":       map[string]any{"name": config.GetName()},
			"renderedImagePushSpec": "r.example.com/os:" + build,
		},
		"status": map[string]any{
			"digestedImagePushSpec": osImage,
			"conditions": []any{map[string]any{
				"type": "Succeeded", "status": "True", "reason": "Lab", "message": "",
				"lastTransitionTime": "2026-01-01T00:00:00Z",
			}},
		},
	})
	if err != nil {
		return err
	}
	config.Object["status"] = map[string]any{
		"currentImagePullSpec": osImage,
		"machineOSBuild": map[string]any{
			"group": Resource("").Group, "resource": "machineosbuilds", "name": build,
		},
	}
	_, err = c.client.Resource(Resource("machineosconfigs")).UpdateStatus(ctx, &config, metav1.UpdateOptions{})
	return err
}

// AwaitImage waits until all nodes report the image.
func (c *Cluster) AwaitImage(ctx context.Context) error {
	return lab.Within(ctx, rolloutLimit, "the image on all nodes", func(ctx context.Context) error {
		nodes, err := c.api.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, n := range nodes.Items {
			if n.Annotations[annotations+"currentImage"] != osImage {
				return errors.New(c.nodeStates(ctx))
			}
		}
		return nil
	})
}
