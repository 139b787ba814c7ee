// SPDX-License-Identifier: Apache-2.0

package rehearsal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	cmacme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// wildcardCertificate requests a certificate for a wildcard, which HTTP-01 cannot prove.
func wildcardCertificate(f *failure) {
	f.resolve(f.lab.API)
	f.create(sharedIssuer, "*."+f.host)
	f.expect(`^Failed to determine a valid solver configuration for the set of domains on the Order: no configured challenge solvers can be used for this challenge$`)
}

// badChallenges creates Challenges that cert-manager itself never creates: for a wildcard,
// for an address, and for a name that the service's configuration excludes.
func badChallenges(f *failure) {
	f.createIssuer(f.t, f.name, holdPods())
	f.resolve(f.lab.API)
	f.create(f.name)
	valid := f.challenge()
	const outside, address, wildcard = "outside-hosts", "ip-address", "wildcard-name"
	excluded := outside + "." + f.lab.Domain
	must(f.t, f.lab.Internet.SetName(run, excluded, f.lab.API))
	client := f.cluster.CertManager.AcmeV1().Challenges(valid.Namespace)
	names := map[string]string{outside: excluded, address: f.lab.API.V4.String(), wildcard: "*." + f.host}
	for name, dnsName := range names {
		// The solver's route depends on the token.
		c := &cmacme.Challenge{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *valid.Spec.DeepCopy()}
		c.Spec.DNSName, c.Spec.Token = dnsName, name+"-"+valid.Spec.Token
		c.Spec.Key = c.Spec.Token + valid.Spec.Key[strings.IndexByte(valid.Spec.Key, '.'):]
		must1(client.Create(run, c, metav1.CreateOptions{}))(f.t)
	}
	const failed = "^Waiting for HTTP-01 challenge propagation: "
	f.expectOf(outside, failed+`wrong status code '400', expected '200'$`)
	f.expectFinding("name-not-in-hosts", "--name", excluded)
	f.expectOf(address, failed+`wrong status code '503', expected '200'$`)
	f.expectJournal(address+"-", selfCheck, "route-missing-for-address")
	f.expectOf(wildcard, failed+`failed to perform self check GET request .*: no such host$`)
	for name := range names {
		must(f.t, client.Delete(run, name, metav1.DeleteOptions{}))
		must(f.t, lab.Within(run, issueLimit, "the end of Challenge "+name, func(context.Context) error {
			_, err := f.messages.challenges.Challenges(valid.Namespace).Get(name)
			if err == nil {
				return errors.New("it exists")
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
			return nil
		}))
	}
	f.start(valid)
	f.awaitReady()
}

// hostNetwork has an issuer that requests the node's network for its solver Pods. The API
// server reports or drops the field.
func hostNetwork(f *failure) {
	client := must1(dynamic.NewForConfig(f.cluster.Config))(f.t).Resource(clusterIssuers)
	url, _ := f.lab.Internet.Directory()
	issuer := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer", "metadata": map[string]any{"name": f.name},
		"spec": map[string]any{"acme": map[string]any{
			"server": url, "privateKeySecretRef": map[string]any{"name": cluster.AccountSecret(f.name)},
			"solvers": []any{map[string]any{"http01": map[string]any{"ingress": map[string]any{
				"podTemplate": map[string]any{"spec": map[string]any{"hostNetwork": true}},
			}}}},
		}},
	}}
	_, err := client.Create(run, issuer.DeepCopy(), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	const field = `unknown field "spec.acme.solvers[0].http01.ingress.podTemplate.spec.hostNetwork"`
	if err == nil || !strings.Contains(err.Error(), field) {
		f.t.Errorf("the API server answered %v, want %s", err, field)
	}
	f.t.Logf("API server: %v", err)
	created := must1(client.Create(run, issuer, metav1.CreateOptions{FieldValidation: metav1.FieldValidationIgnore}))(f.t)
	if strings.Contains(fmt.Sprint(created.Object), "hostNetwork") {
		f.t.Errorf("the API server stored the field: %v", created.Object)
	}
}

// clusterIssuers is the resource of ClusterIssuers.
var clusterIssuers = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "clusterissuers"}
