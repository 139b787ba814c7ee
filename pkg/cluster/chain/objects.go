// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
)

// Bounds of what is shown. Real clusters have one Certificate for the name, with one Challenge.
const (
	maxCertificates = 5
	maxEntries      = 20 // of namedCertificates, of which OpenShift accepts ten
	maxChallenges   = 5
	maxSolver       = 20
	maxText         = 2 << 10 // bytes of a text of an object
)

// Namespace contains the Secrets of namedCertificates.
const Namespace = "openshift-config"

// solverLabel selects the objects of solvers (cert-manager, pkg/apis/acme/v1/const.go).
const solverLabel = "acme.cert-manager.io/http01-solver=true"

type metadata struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	Created         time.Time         `json:"creationTimestamp"`
	Labels          map[string]string `json:"labels"`
	OwnerReferences []struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"ownerReferences"`
}

// String is the name with the namespace.
func (m metadata) String() string { return strings.TrimPrefix(m.Namespace+"/"+m.Name, "/") }

// NamedCertificate is an entry of spec.servingCerts.namedCertificates of an APIServer.
type NamedCertificate struct {
	Names  []string `json:"names"`
	Secret struct {
		Name string `json:"name"`
	} `json:"servingCertificate"`
}

type statusCondition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"lastTransitionTime"`
}

type issuerRef struct {
	Group string `json:"group"` // empty: cert-manager.io
	Kind  string `json:"kind"`  // empty: Issuer
	Name  string `json:"name"`
}

// solver is the solver of a Challenge.
type solver struct {
	HTTP01 struct {
		Ingress *struct {
			Name string `json:"name"` // of an existing Ingress
		} `json:"ingress"`
		Gateway *struct{} `json:"gatewayHTTPRoute"`
	} `json:"http01"`
}

// object contains what is read of the objects of all kinds. No two kinds use a field differently.
type object struct {
	Kind     string   `json:"kind"`
	Metadata metadata `json:"metadata"`
	Spec     struct {
		ServingCerts struct {
			Named []NamedCertificate `json:"namedCertificates"`
		} `json:"servingCerts"` // APIServer

		DNSNames   []string  `json:"dnsNames"` // Certificate
		SecretName string    `json:"secretName"`
		IssuerRef  issuerRef `json:"issuerRef"`

		ACME *struct {
			Server  string `json:"server"`
			Profile string `json:"profile"`
		} `json:"acme"` // ClusterIssuer, Issuer

		DNSName string `json:"dnsName"` // Challenge
		Token   string `json:"token"`
		Solver  solver `json:"solver"`

		PodSelector selector      `json:"podSelector"` // NetworkPolicy
		PolicyTypes []string      `json:"policyTypes"`
		Ingress     []ingressRule `json:"ingress"`
	} `json:"spec"`
	Status struct {
		APIServerURL string `json:"apiServerURL"` // Infrastructure

		Conditions     []statusCondition `json:"conditions"`
		NotBefore      time.Time         `json:"notBefore"` // Certificate
		RenewalTime    time.Time         `json:"renewalTime"`
		FailedAttempts int               `json:"failedIssuanceAttempts"`

		State          string `json:"state"` // Order, Challenge
		Reason         string `json:"reason"`
		Presented      bool   `json:"presented"`
		Authorizations []struct {
			InitialState string `json:"initialState"`
		} `json:"authorizations"`

		Phase   string `json:"phase"` // Pod
		Ingress []struct {
			Conditions []statusCondition `json:"conditions"`
		} `json:"ingress"` // Route
	} `json:"status"`
}

// is returns the condition of a type if its status is True.
func (o object) is(kind string) (statusCondition, bool) {
	c := o.condition(kind)
	return c, c.Status == "True"
}

// condition returns the condition of a type; the zero value without it.
func (o object) condition(kind string) statusCondition {
	for _, c := range o.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return statusCondition{}
}

func (o object) isOwnedBy(owner object) bool {
	return o.Metadata.Namespace == owner.Metadata.Namespace && len(o.Metadata.OwnerReferences) > 0 &&
		o.Metadata.OwnerReferences[0].Kind == owner.Kind && o.Metadata.OwnerReferences[0].Name == owner.Metadata.Name
}

// Objects are the objects of a cluster for one name of the API.
type Objects struct {
	Name string
	// NotExamined is what could not be read, with the reason.
	NotExamined []string

	all     []object
	secrets []Secret
	// hasRoutes and hasSecrets report whether these were read.
	hasRoutes, hasSecrets bool
}

// Getter returns what "oc get" prints with these arguments.
type Getter func(ctx context.Context, args ...string) ([]byte, error)

// Read reads the objects. An empty name is the name in the cluster's Infrastructure. The keys in Secrets are not
// read: oc does not print them.
func Read(ctx context.Context, get Getter, name string) (Objects, error) {
	o := Objects{Name: name}
	if name == "" {
		err := o.read(ctx, get, "infrastructures.config.openshift.io/cluster")
		for _, i := range o.of("Infrastructure") {
			if u, invalid := url.Parse(i.Status.APIServerURL); invalid == nil {
				o.Name = u.Hostname()
			}
		}
		if o.Name == "" {
			return o, fmt.Errorf("cannot find out the name of the API: %w: give the name",
				cmp.Or(err, errors.New("the Infrastructure has no apiServerURL")))
		}
	}
	o.readOptional(ctx, get, "the APIServer", "apiservers.config.openshift.io/cluster")
	err := o.read(ctx, get, "certificates.cert-manager.io,clusterissuers.cert-manager.io,issuers.cert-manager.io", "-A")
	if err != nil {
		return o, fmt.Errorf("cannot read the Certificates: %w", err)
	}
	o.dropOthers()
	secrets := map[string][]string{}
	add := func(namespace, name string) {
		if nodes.ValidName(name) && !slices.Contains(secrets[namespace], name) {
			secrets[namespace] = append(secrets[namespace], name)
		}
	}
	for _, e := range o.named() {
		add(Namespace, e.Secret.Name)
	}
	for _, c := range o.of("Certificate") {
		add(c.Metadata.Namespace, c.Spec.SecretName)
	}
	o.hasSecrets = true
	for _, namespace := range slices.Sorted(maps.Keys(secrets)) {
		o.readNamespace(ctx, get, namespace, secrets[namespace])
	}
	return o, nil
}

// readNamespace reads what belongs to the Certificates of a namespace.
func (o *Objects) readNamespace(ctx context.Context, get Getter, namespace string, secrets []string) {
	optional := func(what string, args ...string) bool {
		return o.readOptional(ctx, get, what+" in "+namespace, append(args, "-n", namespace)...)
	}
	if err := o.readSecrets(ctx, get, namespace, secrets); err != nil {
		o.hasSecrets = false
		o.NotExamined = append(o.NotExamined, fmt.Sprintf("the Secrets in %s: %v", namespace, err))
	}
	optional("the requests of cert-manager", "certificaterequests.cert-manager.io,orders.acme.cert-manager.io,"+
		"challenges.acme.cert-manager.io")
	if !slices.ContainsFunc(o.all, func(c object) bool {
		return c.Kind == "Challenge" && c.Metadata.Namespace == namespace
	}) {
		return
	}
	optional("the solvers", "pods,services,ingresses.networking.k8s.io", "-l", solverLabel)
	optional("the NetworkPolicies", "networkpolicies.networking.k8s.io")
	o.hasRoutes = optional("the Routes", "routes.route.openshift.io", "-l", solverLabel) || o.hasRoutes
}

// readOptional is read for objects without which the others are examined. A cluster may not know their kind.
func (o *Objects) readOptional(ctx context.Context, get Getter, what string, args ...string) (read bool) {
	err := o.read(ctx, get, args...)
	if err != nil && !errors.Is(err, nodes.ErrUnknownKind) {
		o.NotExamined = append(o.NotExamined, fmt.Sprintf("%s: %v", what, err))
	}
	return err == nil
}

// read adds the objects that oc prints: a List, or one object.
func (o *Objects) read(ctx context.Context, get Getter, args ...string) error {
	out, err := get(ctx, append(args, "--ignore-not-found", "--output=json")...)
	if err != nil || len(out) == 0 {
		return err
	}
	var list struct {
		object

		Items []object `json:"items"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return fmt.Errorf("oc printed no list of objects: %w", err)
	}
	if !strings.HasSuffix(list.Kind, "List") {
		list.Items = []object{list.object}
	}
	o.all = append(o.all, list.Items...)
	return nil
}

// secretTemplate prints Secrets without the values of all keys except tls.crt.
const secretTemplate = `{{define "secret"}}{"metadata":{"namespace":"{{.metadata.namespace}}",` +
	`"name":"{{.metadata.name}}","creationTimestamp":"{{.metadata.creationTimestamp}}"},"type":{{printf "%q" .type}},` +
	`"data":{{"{"}}{{range $key, $value := .data}}"{{$key}}":"{{if eq $key "tls.crt"}}{{$value}}{{end}}",` +
	`{{end}}"":""{{"}}"}}{{end}}` +
	`{{if eq .kind "List"}}{{range .items}}{{template "secret" .}}{{end}}{{else}}{{template "secret" .}}{{end}}`

func (o *Objects) readSecrets(ctx context.Context, get Getter, namespace string, names []string) error {
	args := slices.Concat([]string{"secrets"}, names, []string{
		"-n", namespace, "--ignore-not-found", "--output=go-template=" + secretTemplate,
	})
	out, err := get(ctx, args...)
	if err != nil {
		return err
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var s Secret
		switch err := d.Decode(&s); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("oc printed no Secret: %w", err)
		}
		o.secrets = append(o.secrets, s)
	}
}

// dropOthers keeps the Certificates for the name, and all other kinds.
func (o *Objects) dropOthers() {
	count := 0
	o.all = slices.DeleteFunc(o.all, func(c object) bool {
		if c.Kind != "Certificate" {
			return false
		}
		covered := coveredBy(c.Spec.DNSNames, o.Name)
		if covered {
			count++
		}
		return !covered || count > maxCertificates
	})
}

// coveredBy reports whether names of a certificate, which may be wildcards, are valid for a name.
func coveredBy(names []string, name string) bool {
	_, parent, _ := strings.Cut(name, ".")
	return slices.ContainsFunc(names, func(pattern string) bool {
		return strings.EqualFold(pattern, name) || strings.EqualFold(pattern, "*."+parent)
	})
}

// HasCertificate reports whether there is a Certificate for the name.
func (o *Objects) HasCertificate() bool { return len(o.of("Certificate")) > 0 }

// of returns the objects of a kind.
func (o *Objects) of(kind string) (all []object) {
	for _, one := range o.all {
		if one.Kind == kind {
			all = append(all, one)
		}
	}
	return all
}

// ownedBy returns the objects of a kind that belong to an owner, the newest first.
func (o *Objects) ownedBy(owner object, kind string) (all []object) {
	for _, one := range o.of(kind) {
		if one.isOwnedBy(owner) {
			all = append(all, one)
		}
	}
	slices.SortStableFunc(all, func(a, b object) int { return b.Metadata.Created.Compare(a.Metadata.Created) })
	return all
}

// named returns the entries of the APIServer.
func (o *Objects) named() (all []NamedCertificate) {
	for _, one := range o.of("APIServer") {
		all = append(all, one.Spec.ServingCerts.Named...)
	}
	return all[:min(len(all), maxEntries)]
}

func clean(text string) string { return printable.Truncate(text, maxText) }
