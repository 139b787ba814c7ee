// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	// before is the configuration of the hosts before their first update.
	before = "rendered-master-before"
	// placeholder is the reference of images that no host pulls.
	placeholder = "r.example.com/openshift@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

	operatorNamespace = "openshift-machine-config-operator"
)

//go:embed objects.yaml
var objects string

// crd matches the names of the CRDs that the programs use, in the default feature set.
var crd = regexp.MustCompile(`_(clusteroperators|clusterversions|proxies|apiservers|dnses|featuregates|` +
	`imagecontentsourcepolicies|imagedigestmirrorsets|images|imagetagmirrorsets|infrastructures|networks|nodes|` +
	`schedulers|containerruntimeconfigs|` +
	`controllerconfigs|kubeletconfigs|machineconfignodes|machineconfigpools|machineconfigs|machineconfigurations|` +
	`machineosbuilds|machineosconfigs|pinnedimagesets)(-Default|-SelfManagedHA|-SelfManagedHA-Default)?\.crd\.yaml$` +
	`|_machineos(builds|configs)-TechPreviewNoUpgrade\.crd\.yaml$`) // 4.19's snapshot precedes the default

// crds returns the paths of the CRDs. A release line lacks the CRDs of its disabled features.
func (c *Cluster) crds() ([]string, error) {
	var paths []string
	for _, folder := range []string{"payload-manifests/crds", "config/v1/zz_generated.crd-manifests"} {
		entries, err := os.ReadDir(filepath.Join(c.programs.API, folder))
		if err != nil {
			return nil, fmt.Errorf("list the CRDs: %w", err)
		}
		for _, e := range entries {
			if crd.MatchString(e.Name()) {
				paths = append(paths, filepath.Join(c.programs.API, folder, e.Name()))
			}
		}
	}
	return paths, nil
}

// registry is the registry of the hosts.
type registry struct{ Name, CA, PullSecret string }

// createObjects creates the CRDs and the objects that the programs read.
func (c *Cluster) createObjects(ctx context.Context, r registry) error {
	paths, err := c.crds()
	if err != nil {
		return err
	}
	if err := c.api.CreateCRDs(ctx, paths...); err != nil {
		return err
	}
	parsed, err := template.New("objects").Parse(objects)
	if err != nil {
		return fmt.Errorf("parse the objects: %w", err)
	}
	quoted := func(text string) string {
		encoded, _ := json.Marshal(text) // a string
		return string(encoded)
	}
	l := c.lab
	var text bytes.Buffer
	if err := parsed.Execute(&text, map[string]any{
		"Release": c.programs.Release, "Image": placeholder, "Before": before,
		"Domain": l.Domain, "API": l.API, "Ingress": l.Ingress,
		"RegistryName": r.Name, "RegistryCA": quoted(r.CA), "PullSecret": quoted(r.PullSecret),
		"CA": quoted(string(c.api.Trust)),
	}); err != nil {
		return fmt.Errorf("fill the objects in: %w", err)
	}
	for document := range strings.SplitSeq(text.String(), "\n---\n") {
		o := map[string]any{}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			return fmt.Errorf("parse an object: %w\n%s", err, document)
		}
		if err := c.create(ctx, o); err != nil {
			return err
		}
	}
	gates, err := c.featureGates()
	if err != nil {
		return err
	}
	return c.create(ctx, gates)
}

// featureGates returns the FeatureGate of the release, in the default feature set. The hosts have no CRI-O,
// to which PinnedImages connects.
func (c *Cluster) featureGates() (map[string]any, error) {
	path := filepath.Join(c.programs.API, "payload-manifests/featuregates/featureGate-SelfManagedHA-Default.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the feature gates: %w", err)
	}
	var o map[string]any
	if err := yaml.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	all, _, err := unstructured.NestedSlice(o, "status", "featureGates")
	if err != nil || len(all) != 1 {
		return nil, fmt.Errorf("%s has %d lists of feature gates: %w", path, len(all), err)
	}
	one, _ := all[0].(map[string]any)
	enabled, _ := one["enabled"].([]any)
	disabled, _ := one["disabled"].([]any)
	pinned := map[string]any{"name": "PinnedImages"}
	one["version"] = c.programs.Release
	isPinned := func(gate any) bool {
		named, _ := gate.(map[string]any)
		return named["name"] == pinned["name"]
	}
	one["enabled"] = slices.DeleteFunc(enabled, isPinned)
	one["disabled"] = append(slices.DeleteFunc(disabled, isPinned), pinned)
	return o, unstructured.SetNestedSlice(o, all, "status", "featureGates")
}

// create creates an object, with its status. The API server may not serve its kind yet.
func (c *Cluster) create(ctx context.Context, o map[string]any) error {
	object := &unstructured.Unstructured{Object: o}
	kind := object.GroupVersionKind()
	return lab.Eventually(ctx, "to create "+kind.Kind+" "+object.GetName(), func(ctx context.Context) error {
		mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.api.Kube.Discovery()))
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return err
		}
		var resource dynamic.ResourceInterface = c.client.Resource(mapping.Resource)
		if namespace := object.GetNamespace(); namespace != "" {
			resource = c.client.Resource(mapping.Resource).Namespace(namespace)
		}
		created, err := resource.Create(ctx, object.DeepCopy(),
			metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		if apierrors.IsAlreadyExists(err) {
			created, err = resource.Get(ctx, object.GetName(), metav1.GetOptions{})
		}
		if status, has := o["status"]; err == nil && has {
			created.Object["status"] = status
			_, err = resource.UpdateStatus(ctx, created, metav1.UpdateOptions{})
		}
		return err
	})
}
