// SPDX-License-Identifier: Apache-2.0

// The node disruption policy of that pool. A real operator observes it in test/rehearsal/openshift; here, the
// nodes have no API server.

package oc

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
)

// policy is the MachineConfiguration "cluster". The API server stores the last applied object,
// and the operator observes it some time later: with the second read of the object, so that a
// command that waits for it must read repeatedly.
//
// The operator writes the active policy, with its default entries, and the generation at once
// (pkg/operator/sync.go, syncMachineConfiguration).
type policy struct {
	operator   *oracle.Operator
	applied    []byte // with managedFields and without status
	generation int64  // number of changes of the spec

	active          operatorv1.NodeDisruptionPolicyClusterStatus
	observed        int64 // generation of the active policy
	seenSinceChange bool  // read since the last change
}

// newPolicy returns a policy that the operator observed.
func newPolicy(ctx context.Context, operator *oracle.Operator, object []byte) (policy, error) {
	p := policy{operator: operator, applied: object, generation: 1}
	return p, p.observe(ctx)
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
func (p *policy) get(ctx context.Context) (map[string]any, error) {
	if p.seenSinceChange {
		if err := p.observe(ctx); err != nil {
			return nil, err
		}
	}
	p.seenSinceChange = true
	var o map[string]any
	if err := yaml.Unmarshal(p.applied, &o); err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	metadata, _ := o["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata["generation"] = p.generation
	o["metadata"] = metadata
	active, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p.active)
	if err != nil {
		return nil, fmt.Errorf("encode the active policy: %w", err)
	}
	o["status"] = map[string]any{
		"observedGeneration":         p.observed,
		"nodeDisruptionPolicyStatus": map[string]any{"clusterPolicies": active},
	}
	return o, nil
}

// observe makes the applied policy the active one.
func (p *policy) observe(ctx context.Context) (err error) {
	if p.observed == p.generation {
		return nil
	}
	if p.active, err = p.operator.Policies(ctx, p.applied); err != nil {
		return err
	}
	p.observed = p.generation
	return nil
}

func spec(object []byte) (map[string]any, error) {
	var o struct{ Spec map[string]any }
	if err := yaml.Unmarshal(object, &o); err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	return o.Spec, nil
}
