// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// outcomes are values of that label, for requests that went to the ingress.
func outcomes() []string { return texts(report.Outcomes()) }

// refusals are its other values.
func refusals() []string { return texts(report.Refusals()) }

// askers are all values of the label client.
func askers() []string { return texts(report.ClientKinds()) }

// causes are all values of that label.
func causes() []string { return texts(upstream.Causes()) }

func texts[T ~string](values []T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return all
}
