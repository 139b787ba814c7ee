// SPDX-License-Identifier: Apache-2.0

package rehearsal_test

import (
	"context"
	"errors"
	"strings"

	cmacme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
