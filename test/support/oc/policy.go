// SPDX-License-Identifier: Apache-2.0

package oc

import (
	"fmt"
	"maps"
	"reflect"

	"sigs.k8s.io/yaml"
)

// policy is the MachineConfiguration "cluster". The API server stores the last applied object,
// and the operator observes it some time later: a change takes effect with the second read of
// the object, so that a command that waits for it must read repeatedly.
//
// Like the operator (pkg/operator/sync.go, syncMachineConfiguration) it writes the active
// policy and its generation at once.
type policy struct {
	applied    []byte // with managedFields and without status
	generation int64  // number of changes of the spec

	inForce         []byte
	observed        int64 // generation of the active policy
	seenSinceChange bool  // read since the last change
}

// newPolicy returns a policy that the operator observed.
func newPolicy(object []byte) policy {
	return policy{applied: object, generation: 1, inForce: object, observed: 1}
}

// apply stores the API server's result for an object.
func (p *policy) apply(object []byte) error {
	before, err := spec(p.applied)
	if err != nil {
		return err
	}
	after, err := spec(object)
	if err != nil {
		return err
	}
	p.applied = object
	if !reflect.DeepEqual(before, after) {
		p.generation, p.seenSinceChange = p.generation+1, false
	}
	return nil
}

// get returns the object and counts the read.
func (p *policy) get() (map[string]any, error) {
	if p.seenSinceChange {
		p.observe()
	}
	p.seenSinceChange = true
	var o map[string]any
	if err := yaml.Unmarshal(p.applied, &o); err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	inForce, err := spec(p.inForce)
	if err != nil {
		return nil, err
	}
	metadata, _ := o["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata["generation"] = p.generation
	o["metadata"] = metadata
	o["status"] = map[string]any{
		"observedGeneration":         p.observed,
		"nodeDisruptionPolicyStatus": map[string]any{"clusterPolicies": inForce["nodeDisruptionPolicy"]},
	}
	return o, nil
}

// observe makes the applied policy the active one.
func (p *policy) observe() { p.inForce, p.observed = p.applied, p.generation }

func spec(object []byte) (map[string]any, error) {
	var o struct{ Spec map[string]any }
	if err := yaml.Unmarshal(object, &o); err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	return o.Spec, nil
}
