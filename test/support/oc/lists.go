// SPDX-License-Identifier: Apache-2.0

package oc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
)

// pools of the role label select MachineConfigs, but no rendered ones.
const poolSelector = "machineconfiguration.openshift.io/role=master"

// getLists prints the Lists of the documented commands. found is false for other commands.
func (c *Cluster) getLists(ctx context.Context, names []string, selector, format string) (
	out string, found bool, err error,
) {
	var items []any
	switch line := strings.Join(names, " "); {
	case line == "machineconfiguration/cluster mcp/master clusterversion/version apiserver/cluster":
		items, err = c.singletons(ctx)
	case line == "machineosconfig": // none
	case line == "mc" && selector == poolSelector:
		items, err = c.machineConfigs()
	case line == "machineconfiguration,mcp,mc,clusterversion,apiserver":
		var configs []any
		if items, err = c.singletons(ctx); err == nil {
			configs, err = c.machineConfigs()
		}
		items = append(items, configs...)
	case line == "mcp master":
		configuration := map[string]any{"name": c.rendered}
		status := map[string]any{}
		if c.checkNodes() == nil {
			status["configuration"] = configuration
		}
		out, err = printObject(map[string]any{
			"spec":   map[string]any{"configuration": configuration, "paused": c.paused},
			"status": status,
		}, format)
		return out, true, err
	case line == "mcp" && strings.HasPrefix(format, "jsonpath="):
		sources := []any{}
		for _, name := range c.updated {
			sources = append(sources, map[string]any{"name": name})
		}
		items = []any{map[string]any{"status": map[string]any{"configuration": map[string]any{"source": sources}}}}
	case line == "machineconfigs" && format == "name":
		configs, err := c.machineConfigs()
		var text strings.Builder
		for _, o := range configs {
			metadata, _ := o.(map[string]any)["metadata"].(map[string]any)
			fmt.Fprintf(&text, "machineconfig.machineconfiguration.openshift.io/%s\n", metadata["name"])
		}
		return text.String(), true, err
	default:
		return "", false, nil
	}
	if err != nil {
		return "", true, err
	}
	if items == nil {
		items = []any{}
	}
	out, err = printObject(map[string]any{
		"apiVersion": "v1", "kind": "List", "items": items,
		"metadata": map[string]any{"resourceVersion": ""},
	}, format)
	return out, true, err
}

// singletons returns the policy, the pool, the version and the APIServer of the cluster. The
// newest daemon determines the release.
func (c *Cluster) singletons(ctx context.Context) ([]any, error) {
	policy, err := c.policy.get(ctx)
	if err != nil {
		return nil, err
	}
	release := "4.20.3"
	if !slices.ContainsFunc(c.nodes, func(n Node) bool { return n.Daemon.Flavour == mcd.OpenShift420 }) {
		release = "4.19.7"
	}
	degraded := "False"
	if err := c.checkNodes(); err != nil {
		degraded = "True"
	}
	return []any{
		policy,
		map[string]any{
			"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
			"metadata": map[string]any{"name": "master", "generation": 4},
			"spec":     map[string]any{"paused": c.paused, "maxUnavailable": 1},
			"status": map[string]any{"conditions": []any{
				map[string]any{
					"type": "Degraded", "status": degraded, "reason": "", "message": "",
					"lastTransitionTime": "2026-11-21T12:13:41Z",
				},
			}},
		},
		map[string]any{
			"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": map[string]any{"name": "version"},
			"status": map[string]any{
				"desired": map[string]any{"version": release},
				"history": []any{map[string]any{"state": "Completed", "version": release}},
			},
		},
		map[string]any{
			"apiVersion": "config.openshift.io/v1", "kind": "APIServer", "metadata": map[string]any{"name": "cluster"},
			"spec": map[string]any{"servingCerts": map[string]any{"namedCertificates": []any{
				map[string]any{
					"names":              []any{"api.ocp.example.com"},
					"servingCertificate": map[string]any{"name": "api-certificate"},
				},
			}}},
		},
	}, nil
}

func (c *Cluster) machineConfigs() (all []any, err error) {
	texts := slices.Clone(c.base)
	for _, name := range slices.Sorted(maps.Keys(c.configs)) {
		texts = append(texts, c.configs[name])
	}
	for _, text := range texts {
		var o map[string]any
		if err := yaml.Unmarshal(text, &o); err != nil {
			return nil, fmt.Errorf("read a MachineConfig: %w", err)
		}
		all = append(all, o)
	}
	return all, nil
}

// printObject prints an object as -o does.
func printObject(o map[string]any, format string) (string, error) {
	expression, isPath := strings.CutPrefix(format, "jsonpath=")
	if format == "yaml" {
		text, err := yaml.Marshal(o)
		return string(text), err //nolint:wrapcheck // Run adds the command
	}
	if !isPath {
		return "", fmt.Errorf("the documentation has no format %q", format)
	}
	path := jsonpath.New("get").AllowMissingKeys(true)
	if err := path.Parse(expression); err != nil {
		return "", fmt.Errorf("%s: %w", expression, err)
	}
	var got strings.Builder
	err := path.Execute(&got, o)
	return got.String(), err //nolint:wrapcheck // Run adds the command
}
