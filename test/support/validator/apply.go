// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	generated "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"
)

// Conflict is a field that another manager owns with another value.
type Conflict struct {
	Field   string // as .spec.nodeDisruptionPolicy.files[path="/etc/a"].actions
	Message string // contains the manager's name
}

// Conflicts is the error of an Apply that would take over fields of other managers.
type Conflicts []Conflict

// Error lists all conflicts.
func (c Conflicts) Error() string {
	parts := make([]string, 0, len(c))
	for _, one := range c {
		parts = append(parts, one.Field+": "+one.Message)
	}
	return "conflicts: " + strings.Join(parts, "; ")
}

// Apply does what `oc apply --server-side` does. live is the YAML of the stored object with
// the managedFields of an earlier Apply, or nil. applied is the YAML of the manager. It
// returns the YAML of the new stored object, validated by the schema. Fields of live
// without managedFields belong to "before-first-apply". The error is Conflicts when other
// managers own applied fields and force is false.
func (j *Validator) Apply(live, applied []byte, manager string, force bool) ([]byte, error) {
	patch, k, err := j.decode(applied)
	if err != nil {
		return nil, err
	}
	old, err := j.live(live, patch, k)
	if err != nil {
		return nil, err
	}
	merged, err := k.fields.Apply(old.DeepCopy(), patch, manager, force)
	if err != nil {
		return nil, asConflicts(err)
	}
	result, ok := merged.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("apply gave a %T", merged)
	}
	k.setDefaults(result)
	if live == nil {
		err = asError(result, k.validateCreate(context.Background(), result))
	} else {
		err = k.update(old, result)
	}
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(result.Object)
}

func (j *Validator) live(document []byte, patch *unstructured.Unstructured, k *kind) (*unstructured.Unstructured,
	error,
) {
	if document == nil {
		return empty(k.gvk), nil
	}
	old, of, err := j.decode(document)
	if err != nil {
		return nil, fmt.Errorf("the live object: %w", err)
	}
	if of != k || old.GetName() != patch.GetName() {
		return nil, fmt.Errorf("%s %q cannot be applied to %s %q", k.gvk.Kind, patch.GetName(), of.gvk.Kind, old.GetName())
	}
	return old, nil
}

func asConflicts(err error) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsConflict(err) || status.ErrStatus.Details == nil {
		return err
	}
	var conflicts Conflicts
	for _, c := range status.ErrStatus.Details.Causes {
		conflicts = append(conflicts, Conflict{Field: c.Field, Message: c.Message})
	}
	return conflicts
}

// fieldManager returns the API server's own field manager, set up as in
// apiextensions-apiserver pkg/apiserver/customresource_handler.go.
func (k *kind) fieldManager() (*managedfields.FieldManager, error) {
	converter, err := managedfields.NewTypeConverter(k.models(), false)
	if err != nil {
		return nil, err
	}
	version := fieldpath.APIVersion(k.gvk.GroupVersion().String())
	reset := map[fieldpath.APIVersion]*fieldpath.Set{}
	if k.hasStatus {
		reset[version] = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	}
	return managedfields.NewDefaultCRDFieldManager(
		converter, sameVersion{}, defaulter{k}, objectCreator{},
		k.gvk, k.gvk.GroupVersion(), "", fieldpath.NewExcludeFilterSetMap(reset),
	)
}

// models returns the schemas of the CRD and of its metadata, as in apiextensions-apiserver
// pkg/controller/openapi/builder/builder.go. That package itself would add all Kubernetes
// types.
func (k *kind) models() map[string]*spec.Schema {
	definitions := generated.GetOpenAPIDefinitions(reference)
	meta := metav1.ObjectMeta{}.OpenAPIModelName()
	models := map[string]*spec.Schema{}
	collect(definitions, meta, models)

	own := k.structural.ToKubeOpenAPI()
	own.Properties = maps.Clone(own.Properties)
	own.Properties["metadata"] = *spec.RefSchema(referencePath + meta)
	own.AddExtension("x-kubernetes-group-version-kind", []any{
		map[string]any{"group": k.gvk.Group, "version": k.gvk.Version, "kind": k.gvk.Kind},
	})
	models[k.gvk.Kind] = own
	return models
}

const referencePath = "#/components/schemas/"

func reference(name string) spec.Ref { return spec.MustCreateRef(referencePath + name) }

func collect(definitions map[string]common.OpenAPIDefinition, name string, into map[string]*spec.Schema) {
	if into[name] != nil {
		return
	}
	d := definitions[name]
	into[name] = &d.Schema
	for _, needed := range d.Dependencies {
		collect(definitions, needed, into)
	}
}

// objectCreator creates empty objects.
type objectCreator struct{}

func (objectCreator) New(gvk schema.GroupVersionKind) (runtime.Object, error) { return empty(gvk), nil }

func empty(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	return u
}

type defaulter struct{ k *kind }

func (d defaulter) Default(in runtime.Object) {
	if u, ok := in.(*unstructured.Unstructured); ok {
		d.k.setDefaults(u)
	}
}

// sameVersion converts between the versions of a CRD, of which there is only one.
type sameVersion struct{}

func (sameVersion) Convert(_, _, _ any) error {
	return errors.New("the CRD has one version")
}

func (sameVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (sameVersion) ConvertFieldLabel(_ schema.GroupVersionKind, _, _ string) (string, string, error) {
	return "", "", errors.New("field labels are not supported")
}
