// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Create gives what is stored when a client creates the object and does not ask
// for strict field validation, as most programs do not: fields that the schema
// lacks are left out, and named in the warnings.
func (j *Validator) Create(document []byte) (stored []byte, warnings []string, err error) {
	u, k, unknown, err := j.read(document)
	if err != nil {
		return nil, nil, err
	}
	if k.hasStatus {
		unstructured.RemoveNestedField(u.Object, "status")
	}
	k.setDefaults(u)
	if err := asError(u, k.validateCreate(context.Background(), u)); err != nil {
		return nil, nil, err
	}
	stored, err = yaml.Marshal(u.Object)
	return stored, asWarnings(unknown), err
}

// Replace gives what is stored when such a client puts the object in the place
// of the stored one.
func (j *Validator) Replace(before, document []byte) (stored []byte, warnings []string, err error) {
	old, of, _, err := j.read(before)
	if err != nil {
		return nil, nil, fmt.Errorf("the object to be replaced: %w", err)
	}
	u, k, unknown, err := j.read(document)
	if err != nil {
		return nil, nil, err
	}
	if k != of {
		return nil, nil, fmt.Errorf("a %s cannot become a %s", of.gvk.Kind, k.gvk.Kind)
	}
	k.setDefaults(old)
	k.setDefaults(u)
	if err := k.update(old, u); err != nil {
		return nil, nil, err
	}
	stored, err = yaml.Marshal(u.Object)
	return stored, asWarnings(unknown), err
}

func asWarnings(unknown []string) []string {
	var all []string
	for _, f := range unknown {
		all = append(all, fmt.Sprintf("unknown field %q", f))
	}
	return all
}
