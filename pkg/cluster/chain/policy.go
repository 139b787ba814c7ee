// SPDX-License-Identifier: Apache-2.0

package chain

import "slices"

// solverPort is the port of cert-manager's solver (pkg/issuer/acme/http/http.go, acmeSolverListenPort).
const solverPort = 8089

// selector is a LabelSelector of Kubernetes.
type selector struct {
	Labels      map[string]string `json:"matchLabels"`
	Expressions []struct{}        `json:"matchExpressions"`
}

// ingressRule is a rule of a NetworkPolicy. Its peers are not judged.
type ingressRule struct {
	Ports []struct {
		Protocol string `json:"protocol"` // empty: TCP
		Port     any    `json:"port"`     // a number, a name or nil
		EndPort  int    `json:"endPort"`
	} `json:"ports"`
}

// permits reports whether the rule may permit the solver's port. The name of a port may stand for it.
func (r ingressRule) permits() bool {
	for _, p := range r.Ports {
		number, isNumber := p.Port.(float64)
		inRange := int(number) == solverPort || int(number) < solverPort && solverPort <= p.EndPort
		if (p.Protocol == "" || p.Protocol == "TCP") && (!isNumber || inRange) {
			return true
		}
	}
	return len(r.Ports) == 0
}

// blocking returns the NetworkPolicies that select a pod, if none of them permits ingress to the solver's
// port. A selector with expressions is not evaluated: such a policy counts only if it permits.
func blocking(policies []object, pod object) (all []object) {
	for _, p := range policies {
		selects := p.Spec.PodSelector
		ofIngress := len(p.Spec.PolicyTypes) == 0 || slices.Contains(p.Spec.PolicyTypes, "Ingress")
		if !ofIngress || p.Metadata.Namespace != pod.Metadata.Namespace || !isSubset(selects.Labels, pod.Metadata.Labels) {
			continue
		}
		if slices.ContainsFunc(p.Spec.Ingress, ingressRule.permits) {
			return nil
		}
		if len(selects.Expressions) == 0 {
			all = append(all, p)
		}
	}
	return all
}

func isSubset(part, whole map[string]string) bool {
	for key, value := range part {
		if got, has := whole[key]; !has || got != value {
			return false
		}
	}
	return true
}
