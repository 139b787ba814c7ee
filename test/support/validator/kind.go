// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"
)

// kind is one compiled version of a CRD.
type kind struct {
	gvk        schema.GroupVersionKind
	namespaced bool
	hasStatus  bool
	structural *structuralschema.Structural
	openAPI    schemavalidation.SchemaValidator
	rules      *cel.Validator // nil without rules
	fields     *managedfields.FieldManager
}

func parseCRD(raw []byte) ([]*kind, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
		return nil, err
	}
	var kinds []*kind
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		k, err := compile(&crd, v)
		if err != nil {
			return nil, fmt.Errorf("version %s: %w", v.Name, err)
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

func compile(crd *apiextensionsv1.CustomResourceDefinition, v apiextensionsv1.CustomResourceDefinitionVersion) (*kind,
	error,
) {
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema,
		&internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	if errs := structuralschema.ValidateStructural(nil, structural); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	openAPI, _, err := schemavalidation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	k := &kind{
		gvk:        schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind},
		namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		hasStatus:  v.Subresources != nil && v.Subresources.Status != nil,
		structural: structural,
		openAPI:    openAPI,
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}
	k.fields, err = k.fieldManager()
	return k, err
}

// coerce decodes the object as the API server does (apiextensions-apiserver
// pkg/apiserver/customresource_handler.go, unstructuredSchemaCoercer). It removes fields
// that the schema lacks and returns their names.
func (k *kind) coerce(u *unstructured.Unstructured) (unknown []string, err error) {
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(u.Object,
		objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	unknown = append(unknown, pruning.PruneWithOptions(u.Object, k.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, k.structural)
	invalid, more := objectmeta.CoerceWithOptions(nil, u.Object, k.structural, false,
		objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if invalid != nil {
		return nil, invalid
	}
	u.SetGroupVersionKind(k.gvk)
	if found {
		if err := objectmeta.SetObjectMeta(u.Object, meta); err != nil {
			return nil, err
		}
	}
	return append(unknown, more...), nil
}

func (k *kind) setDefaults(u *unstructured.Unstructured) {
	defaulting.Default(u.Object, k.structural)
}

// validateCreate follows apiextensions-apiserver pkg/registry/customresource/strategy.go,
// Validate. That package itself would add the storage layer.
func (k *kind) validateCreate(ctx context.Context, u *unstructured.Unstructured) error {
	errs := metavalidation.ValidateObjectMetaAccessor(u, k.namespaced, metavalidation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	errs = append(errs, schemavalidation.ValidateCustomResource(nil, u.UnstructuredContent(), k.openAPI)...)
	errs = append(errs, objectmeta.Validate(nil, u.Object, k.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, u.Object)...)
	return k.addRules(ctx, errs, u, nil)
}

// validateUpdate follows the same file's ValidateUpdate.
func (k *kind) validateUpdate(ctx context.Context, u, old *unstructured.Unstructured) error {
	correlated := common.NewCorrelatedObject(u.Object, old.Object, &model.Structural{Structural: k.structural})
	errs := metavalidation.ValidateObjectMetaAccessorUpdate(u, old, field.NewPath("metadata"))
	errs = append(errs, schemavalidation.ValidateCustomResourceUpdate(nil, u.UnstructuredContent(),
		old.UnstructuredContent(), k.openAPI, schemavalidation.WithRatcheting(correlated))...)
	errs = append(errs, objectmeta.Validate(nil, u.Object, k.structural, false)...)
	if len(listtype.ValidateListSetsAndMaps(nil, k.structural, old.Object)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, u.Object)...)
	}
	return k.addRules(ctx, errs, u, old, cel.WithRatcheting(correlated))
}

// addRules runs the CEL rules unless the shape of the object is wrong. The API server skips
// them in that case too.
func (k *kind) addRules(ctx context.Context, errs field.ErrorList, u, old *unstructured.Unstructured,
	options ...cel.Option,
) error {
	if slices.ContainsFunc(errs, func(e *field.Error) bool { return slices.Contains(wrongShape(), e.Type) }) {
		return errs.ToAggregate()
	}
	if k.rules != nil {
		var before any
		if old != nil {
			before = old.Object
		}
		more, _ := k.rules.Validate(ctx, nil, k.structural, u.Object, before, celconfig.RuntimeCELCostBudget, options...)
		errs = append(errs, more...)
	}
	return errs.ToAggregate()
}

func wrongShape() []field.ErrorType {
	return []field.ErrorType{
		field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong,
		field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
	}
}

// update validates an update of a stored object. It adds the metadata that the storage
// layer sets.
func (k *kind) update(old, u *unstructured.Unstructured) error {
	old, u = old.DeepCopy(), u.DeepCopy()
	for _, o := range []*unstructured.Unstructured{old, u} {
		o.SetResourceVersion("1")
		o.SetUID("00000000-0000-0000-0000-000000000000")
	}
	return asError(u, k.validateUpdate(context.Background(), u, old))
}

// asError adds the object's kind and name to the errors.
func asError(u *unstructured.Unstructured, errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s %q: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}
