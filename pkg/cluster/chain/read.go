// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// maxCertificates is how many Certificates for the name are examined. Real clusters have one.
const maxCertificates = 5

// Namespace contains the Secrets of namedCertificates.
const Namespace = "openshift-config"

// solverLabel selects the objects of solvers (cert-manager, pkg/apis/acme/v1/const.go).
const solverLabel = "acme.cert-manager.io/http01-solver=true"

// solverResources are what cert-manager creates for a challenge.
const solverResources = "pods,services,ingresses.networking.k8s.io"

// secretTemplate prints Secrets without the values of all keys except tls.crt.
const secretTemplate = `{{define "secret"}}{"kind":"Secret","metadata":{"namespace":"{{.metadata.namespace}}",` +
	`"name":"{{.metadata.name}}","creationTimestamp":"{{.metadata.creationTimestamp}}"},"type":{{printf "%q" .type}},` +
	`"data":{{"{"}}{{range $key, $value := .data}}"{{$key}}":"{{if eq $key "tls.crt"}}{{$value}}{{end}}",` +
	`{{end}}"":""{{"}"}}{{"}"}}{{end}}` +
	`{{if eq .kind "List"}}{{range .items}}{{template "secret" .}}{{end}}{{else}}{{template "secret" .}}{{end}}`

// Objects are the objects of a cluster for one name of the API.
type Objects struct {
	Name string
	// NotExamined is what could not be read, with the reason.
	NotExamined []string

	all []Object
	// certificates are the ones for the name, at most maxCertificates.
	certificates []Object
	// unread are the kinds that could not be read, or that the cluster does not know.
	unread []string
}

// Getter returns what "oc get" prints with these arguments.
type Getter func(ctx context.Context, args ...string) ([]byte, error)

// Read reads the objects. An empty name is the name in the cluster's Infrastructure. oc gets the
// Secrets, and prints no keys.
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
	o.selectCertificates()
	secrets := map[string][]string{}
	add := func(namespace, name string) {
		if nodes.ValidName(name) && !slices.Contains(secrets[namespace], name) {
			secrets[namespace] = append(secrets[namespace], name)
		}
	}
	for _, e := range o.entries() {
		add(Namespace, e.Secret.Name)
	}
	for _, c := range o.certificates {
		add(c.Metadata.Namespace, c.Spec.SecretName)
	}
	for _, namespace := range slices.Sorted(maps.Keys(secrets)) {
		optional := func(what, resources string, args ...string) {
			args = slices.Concat([]string{resources}, args, []string{"-n", namespace})
			o.readOptional(ctx, get, what+" in "+namespace, args...)
		}
		optional("the Secrets", "secrets", append(secrets[namespace], "--output=go-template="+secretTemplate)...)
		optional("the requests of cert-manager", "certificaterequests.cert-manager.io,orders.acme.cert-manager.io,"+
			"challenges.acme.cert-manager.io")
		if len(o.of("Challenge")) == 0 {
			continue
		}
		optional("the solvers", solverResources, "-l", solverLabel)
		optional("the NetworkPolicies", "networkpolicies.networking.k8s.io")
		optional("the Routes", "routes.route.openshift.io", "-l", solverLabel)
	}
	return o, nil
}

// readOptional is read for objects without which the others are examined. A cluster may not know their kind.
func (o *Objects) readOptional(ctx context.Context, get Getter, what string, args ...string) {
	err := o.read(ctx, get, args...)
	if err != nil {
		o.unread = append(o.unread, args[0])
	}
	if err != nil && !errors.Is(err, nodes.ErrUnknownKind) {
		o.NotExamined = append(o.NotExamined, fmt.Sprintf("%s: %v", what, err))
	}
}

// read adds the objects that oc prints: a List, or objects. oc uses the last of several flags --output.
func (o *Objects) read(ctx context.Context, get Getter, args ...string) error {
	out, err := get(ctx, slices.Insert(args, 1, "--ignore-not-found", "--output=json")...)
	if err != nil {
		return err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var list struct {
			Object

			Items []Object `json:"items"`
		}
		switch err := d.Decode(&list); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("oc printed no list of objects: %w", err)
		}
		o.all = append(append(o.all, list.Object), list.Items...) // nothing uses the kind List
	}
}

// selectCertificates selects the Certificates for the name. Every user of a namespace may create one: the first are
// the ones in Namespace, in which the APIServer finds their Secrets.
func (o *Objects) selectCertificates() {
	var others []Object
	for _, c := range o.of("Certificate") {
		switch {
		case !coveredBy(c.Spec.DNSNames, o.Name):
		case c.Metadata.Namespace == Namespace:
			o.certificates = append(o.certificates, c)
		default:
			others = append(others, c)
		}
	}
	all := slices.Concat(o.certificates, others)
	o.certificates = all[:min(len(all), maxCertificates)]
	if left := all[len(o.certificates):]; len(left) > 0 {
		o.NotExamined = append(o.NotExamined, fmt.Sprintf("%s for %s, from %s/%s on: the first %d are examined",
			report.Count(len(left), "Certificate"), o.Name, left[0].Metadata.Namespace, left[0].Metadata.Name, maxCertificates))
	}
}

// coveredBy reports whether names of a certificate, which may be wildcards, are valid for a name.
func coveredBy(names []string, name string) bool {
	return (&x509.Certificate{DNSNames: names}).VerifyHostname(name) == nil
}

// HasCertificate reports whether there is a Certificate for the name.
func (o *Objects) HasCertificate() bool { return len(o.certificates) > 0 }

// of returns the objects of a kind.
func (o *Objects) of(kind string) (all []Object) {
	for _, one := range o.all {
		if one.Kind == kind {
			all = append(all, one)
		}
	}
	return all
}

// ownedBy returns the objects of a kind that belong to an owner, the newest first.
func (o *Objects) ownedBy(owner Object, kind string) []Object {
	all := slices.DeleteFunc(o.of(kind), func(one Object) bool {
		return one.Metadata.Namespace != owner.Metadata.Namespace ||
			!slices.ContainsFunc(one.Metadata.OwnerReferences, func(r metav1.OwnerReference) bool {
				return r.Kind == owner.Kind && r.Name == owner.Metadata.Name
			})
	})
	slices.SortStableFunc(all, func(a, b Object) int {
		return b.Metadata.CreationTimestamp.Compare(a.Metadata.CreationTimestamp.Time)
	})
	return all
}

// entries returns the entries of the APIServer.
func (o *Objects) entries() (all []NamedCertificate) {
	for _, one := range o.of("APIServer") {
		all = append(all, one.Spec.ServingCerts.Named...)
	}
	return all
}
