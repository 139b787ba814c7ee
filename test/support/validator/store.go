// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Create returns the stored object when a client creates it without strict field
// validation, as most programs do. Fields that the schema lacks are removed and named in
// the warnings.
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

// Replace returns the stored object when such a client replaces it.
func (j *Validator) Replace(before, document []byte) (stored []byte, warnings []string, err error) {
	old, of, _, err := j.read(before)
	if err != nil {
		return nil, nil, fmt.Errorf("the stored object: %w", err)
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
