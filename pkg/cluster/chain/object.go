// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NamedCertificate is an entry of spec.servingCerts.namedCertificates of an APIServer.
type NamedCertificate struct {
	Names  []string `json:"names"`
	Secret struct {
		Name string `json:"name"`
	} `json:"servingCertificate"`
}

// MaxNamedCertificates is the largest number of entries that kube-apiserver-operator accepts
// (pkg/operator/configobservation/apiserver/observe_apiserver.go, maxUserNamedCerts). The API
// server accepts more.
const MaxNamedCertificates = 10

// Object contains what is read of the objects of all kinds. No two kinds use a field differently.
type Object struct {
	Kind     string            `json:"kind"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	Type     string            `json:"type"` // Secret
	Data     map[string][]byte `json:"data"`
	Spec     struct {
		ServingCerts struct {
			Named []NamedCertificate `json:"namedCertificates"`
		} `json:"servingCerts"` // APIServer

		DNSNames   []string // Certificate
		SecretName string
		IssuerRef  struct{ Group, Kind, Name string } // empty: cert-manager.io and Issuer

		ACME struct{ Server, Profile string } // ClusterIssuer, Issuer

		Profile string // Order

		DNSName, Token string // Challenge
		Solver         struct {
			HTTP01 struct {
				Ingress          struct{ Name string } // an existing one
				GatewayHTTPRoute *struct{}
			}
		}

		PodSelector metav1.LabelSelector // NetworkPolicy
		PolicyTypes []string
		Ingress     []ingressRule
	} `json:"spec"`
	Status struct {
		APIServerURL string // Infrastructure

		Conditions             []metav1.Condition
		NotBefore, RenewalTime time.Time // Certificate
		FailedIssuanceAttempts int

		State, Reason  string // Order, Challenge
		Presented      bool
		Authorizations []struct{ InitialState string }

		Phase   string                                    // Pod
		Ingress []struct{ Conditions []metav1.Condition } // Route
	} `json:"status"`
}

// ingressRule is a rule of a NetworkPolicy. Its peers are not judged.
type ingressRule struct {
	Ports []struct {
		Protocol string // empty: TCP
		Port     intstr.IntOrString
		EndPort  int32
	}
}

// named returns an object of which only the kind and the name are known.
func named(kind, namespace, name string) Object {
	return Object{Kind: kind, Metadata: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// condition returns the condition of a type. Without it, the status is the one in status.state, or failed.
func (o Object) condition(kind string) metav1.Condition {
	all := slices.Clone(o.Status.Conditions)
	for _, router := range o.Status.Ingress {
		all = append(all, router.Conditions...)
	}
	isStaging := slices.Contains([]string{LetsEncryptStaging, googleStaging}, o.Spec.ACME.Server)
	for _, c := range all {
		if c.Type == kind || kind == staging && isStaging && c.Type == "Ready" {
			return c
		}
	}
	status := o.Status.State
	// cert-manager, pkg/acme/acme.go, IsFailureState
	if slices.Contains([]string{"invalid", "expired", "errored"}, status) {
		status = failed
	}
	if kind == short && !isShort(o.Spec.Profile) {
		status = ""
	}
	return metav1.Condition{Status: metav1.ConditionStatus(status), Message: o.Status.Reason}
}

// find returns the object of a kind with a name; nil without it.
func find(all []Object, kind, namespace, name string) *Object {
	for i, o := range all {
		if o.Kind == kind && o.Metadata.Namespace == namespace && o.Metadata.Name == name {
			return &all[i]
		}
	}
	return nil
}

// solverPort is the port of cert-manager's solver (pkg/issuer/acme/http/http.go, acmeSolverListenPort).
const solverPort = 8089

// permits reports whether the rule may permit the solver's port. The name of a port may stand for it.
func (r ingressRule) permits() bool {
	for _, p := range r.Ports {
		inRange := p.Port.IntVal <= solverPort && solverPort <= max(p.EndPort, p.Port.IntVal)
		if (p.Protocol == "" || p.Protocol == "TCP") && (p.Port.Type == intstr.String || p.Port.IntVal == 0 || inRange) {
			return true
		}
	}
	return len(r.Ports) == 0
}

// blocking returns the names of the NetworkPolicies that select a pod, if none of them permits ingress to the solver's
// port.
func blocking(policies []Object, pod Object) (names []string) {
	for _, p := range policies {
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		ofIngress := len(p.Spec.PolicyTypes) == 0 || slices.Contains(p.Spec.PolicyTypes, "Ingress")
		switch {
		case err != nil || !ofIngress || p.Metadata.Namespace != pod.Metadata.Namespace,
			!selector.Matches(labels.Set(pod.Metadata.Labels)):
		case slices.ContainsFunc(p.Spec.Ingress, ingressRule.permits):
			return nil
		default:
			names = append(names, p.Metadata.Name)
		}
	}
	return names
}
