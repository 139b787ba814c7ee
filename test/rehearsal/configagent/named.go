// SPDX-License-Identifier: Apache-2.0

package configagent

import (
	"errors"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
)

// maxNamed is the largest number of named certificates.
const maxNamed = 10

// namedSecret returns the Secret of the entry for a name, or of one without names, or nothing. An
// error rejects all entries. It follows kube-apiserver-operator
// (pkg/operator/configobservation/apiserver/observe_apiserver.go, observeNamedCertificates).
func namedSecret(entries []configv1.APIServerNamedServingCert, name string, exists func(secret string) bool) (
	secret string, err error,
) {
	if len(entries) > maxNamed {
		return "", fmt.Errorf("namedCertificates has %d entries, more than %d", len(entries), maxNamed)
	}
	var errs []error
	used := map[string]bool{}
	for i, e := range entries {
		for _, one := range e.Names {
			if used[one] {
				errs = append(errs, fmt.Errorf("namedCertificates repeats the name %s", one))
			}
			used[one] = true
		}
		of := e.ServingCertificate.Name
		if of == "" || !exists(of) {
			errs = append(errs, fmt.Errorf("namedCertificates[%d]: the Secret %q does not exist", i, of))
		}
		if secret == "" && (len(e.Names) == 0 || slices.Contains(e.Names, name)) {
			secret = of
		}
	}
	if len(errs) > 0 {
		return "", errors.Join(errs...)
	}
	return secret, nil
}
