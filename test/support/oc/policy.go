// SPDX-License-Identifier: Apache-2.0

package oc

import (
	"fmt"
	"maps"
	"reflect"

	"sigs.k8s.io/yaml"
)

// policy is the MachineConfiguration "cluster" between the API server, which
// has what was applied last, and the operator, which takes it up some time
// later: a change comes into force with the second look at the object, so that
// a command that waits for it has to look until it is there.
//
// Like the operator (pkg/operator/sync.go, syncMachineConfiguration) it writes
// what is in force and the generation that it comes from in one go.
type policy struct {
	applied    []byte // with managedFields and without status
	generation int64  // counts changes of the spec

	inForce         []byte
	observed        int64 // the generation of what is in force
	seenSinceChange bool  // since the last change
}

// newPolicy is one that has been there for a while.
func newPolicy(object []byte) policy {
	return policy{applied: object, generation: 1, inForce: object, observed: 1}
}

// apply stores what the API server has made of an object.
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

// get is the object as a look at it shows it.
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

// observe brings what was applied into force.
func (p *policy) observe() { p.inForce, p.observed = p.applied, p.generation }

func spec(object []byte) (map[string]any, error) {
	var o struct{ Spec map[string]any }
	if err := yaml.Unmarshal(object, &o); err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	return o.Spec, nil
}
