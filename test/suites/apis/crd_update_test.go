// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"
)

// validateCRDUpdate validates the update of a CRD with the API server's code. The schema
// must be structural, its defaults valid, and its CEL rules must compile within the cost
// limits.
func validateCRDUpdate(before, after []byte) error {
	old, err := decodeCRD(before)
	if err != nil {
		return err
	}
	crd, err := decodeCRD(after)
	if err != nil {
		return err
	}
	return validation.ValidateCustomResourceDefinitionUpdate(context.Background(), crd, old).ToAggregate()
}

// decodeCRD decodes a CRD into the API server's internal form.
func decodeCRD(document []byte) (*apiextensions.CustomResourceDefinition, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(document, &crd); err != nil {
		return nil, err
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	crd.ResourceVersion, crd.Status.StoredVersions = "1", []string{crd.Spec.Versions[0].Name}
	var internal apiextensions.CustomResourceDefinition
	err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&crd, &internal,
		nil)
	return &internal, err
}
