// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v4"
)

// sameButFor compares two objects, read anew, with all entries that have one
// of the policy's keys left out, and empty lists with them.
func (e *editing) sameButFor(before, after []byte) error {
	old, err := e.foreign(before)
	if err != nil {
		return fmt.Errorf("read the object again: %w", err)
	}
	changed, err := e.foreign(after)
	if err != nil {
		return fmt.Errorf("read the changed object again: %w", err)
	}
	if !reflect.DeepEqual(old, changed) {
		return errors.New("the changed object differs in foreign parts")
	}
	return nil
}

// foreign decodes an object and drops what may be ours.
func (e *editing) foreign(data []byte) (map[string]any, error) {
	var object map[string]any
	decode := func() error { return yaml.Load(data, &object) }
	if e.json {
		decode = func() error { return json.Unmarshal(data, &object) }
	}
	if err := decode(); err != nil {
		return nil, err
	}
	spec, _ := object["spec"].(map[string]any)
	policy, _ := spec["nodeDisruptionPolicy"].(map[string]any)
	for _, l := range e.policy.lists() {
		entries, _ := policy[l.name].([]any)
		entries = slices.DeleteFunc(entries, func(entry any) bool {
			fields, _ := entry.(map[string]any)
			key, _ := fields[l.key].(string)
			return entryFor(l.entries, key) != nil
		})
		if len(entries) == 0 {
			delete(policy, l.name)
		} else {
			policy[l.name] = entries
		}
	}
	if len(policy) == 0 {
		delete(spec, "nodeDisruptionPolicy")
	}
	if len(spec) == 0 {
		delete(object, "spec")
	}
	return object, nil
}
