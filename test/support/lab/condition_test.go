// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// isKubernetesCondition decodes the conditions as Kubernetes does. It fails on unknown
// fields, on invalid conditions, and on differences from the output of Kubernetes, which
// omits an observedGeneration of 0 and writes times in whole seconds.
func isKubernetesCondition(t *testing.T, report string) {
	t.Helper()
	var raw struct {
		Conditions json.RawMessage `json:"conditions"`
	}
	must(t, json.Unmarshal([]byte(report), &raw))
	strict := json.NewDecoder(bytes.NewReader(raw.Conditions))
	strict.DisallowUnknownFields()
	var conditions []metav1.Condition
	must(t, strict.Decode(&conditions))
	for _, err := range validation.ValidateConditions(conditions, field.NewPath("conditions")) {
		t.Error(err)
	}
	if len(conditions) == 0 || conditions[0].Type != "HTTP01ChallengeProxyReady" {
		t.Errorf("want a condition of type HTTP01ChallengeProxyReady first: %s", raw.Conditions)
	}
	again, err := json.Marshal(conditions)
	must(t, err)
	var got bytes.Buffer
	must(t, json.Compact(&got, raw.Conditions))
	if sortedJSON(t, again) != sortedJSON(t, got.Bytes()) {
		t.Errorf("Kubernetes writes\n%s\nwant\n%s", again, &got)
	}
}

// sortedJSON returns JSON with sorted keys.
func sortedJSON(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	must(t, json.Unmarshal(text, &v))
	sorted, err := json.Marshal(v)
	must(t, err)
	return string(sorted)
}
