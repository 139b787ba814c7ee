// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/chain"
)

// CheckAPIServer rejects an APIServer that cannot get the entry of the certificate. file is its
// source.
func (r Request) CheckAPIServer(file string, s chain.Object) error {
	const list = "spec.servingCerts.namedCertificates"
	ours := r.values()
	var problems []error
	others := 0
	for i, entry := range s.Spec.ServingCerts.Named {
		if entry.Secret.Name == ours.Secret {
			continue
		}
		others++
		for _, name := range entry.Names {
			if slices.Contains(ours.All, strings.ToLower(name)) {
				problems = append(problems, problem(file, fmt.Sprintf("%s[%d].names: the Secret %s already has the name %s",
					list, i, entry.Secret.Name, name), "remove the name there first"))
			}
		}
	}
	if others+1 > chain.MaxNamedCertificates {
		problems = append(problems, problem(file, fmt.Sprintf("%s: would have %d entries", list, others+1),
			fmt.Sprintf("keep at most %d: one certificate can have several names", chain.MaxNamedCertificates)))
	}
	return errors.Join(problems...)
}

// Existing is a Certificate of the cluster.
type Existing struct {
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Spec map[string]any `json:"spec"`
}

// CheckExisting rejects a Certificate that has the same name or writes the same Secret, but has
// other settings than the rendered one. file is its source.
func (r Request) CheckExisting(file string, e Existing) error {
	ours := r.values()
	where := "the Certificate " + e.Metadata.Name
	switch {
	case e.Metadata.Namespace != chain.Namespace:
		return nil
	case e.Metadata.Name != ours.Secret && e.Spec["secretName"] != ours.Secret:
		return nil
	case e.Metadata.Name != ours.Secret:
		return problem(file, where+": spec.secretName: also writes the Secret "+ours.Secret, "delete this Certificate first")
	}
	text, err := execute("certificate.yaml", ours)
	if err != nil {
		return err
	}
	var want Existing
	if err := yaml.Unmarshal(text, &want); err != nil {
		return fmt.Errorf("cannot read the rendered Certificate: %w", err)
	}
	var problems []error
	found := differences("spec", want.Spec, e.Spec)
	for _, key := range slices.Sorted(maps.Keys(e.Spec)) {
		if _, rendered := want.Spec[key]; !rendered && key != "revisionHistoryLimit" && key != "secretTemplate" {
			found = append(found, fmt.Sprintf("spec.%s: is set, and the rendered Certificate does not have it", key))
		}
	}
	for _, difference := range found {
		problems = append(problems, problem(file, where+": "+difference,
			"give the same settings, or change the Certificate first and export it again"))
	}
	return errors.Join(problems...)
}

// differences returns the fields of want that got does not have with the same value.
func differences(path string, want, got map[string]any) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		inner, isObject := want[key].(map[string]any)
		found, same := got[key].(map[string]any)
		switch {
		case isObject && (same || got[key] == nil):
			all = append(all, differences(path+"."+key, inner, found)...)
		case got[key] == nil && want[key] == "cert-manager.io": // the default of issuerRef.group
		case got[key] == nil:
			all = append(all, fmt.Sprintf("%s.%s: is not set, want %v", path, key, want[key]))
		case !equal(want[key], got[key]):
			all = append(all, fmt.Sprintf("%s.%s: is %v, want %v", path, key, got[key], want[key]))
		}
	}
	return all
}

// equal also compares durations in different forms, such as 720h and 720h0m0s, and numbers of different types.
func equal(want, got any) bool {
	if fmt.Sprint(want) == fmt.Sprint(got) {
		return true
	}
	a, errA := time.ParseDuration(fmt.Sprint(want))
	b, errB := time.ParseDuration(fmt.Sprint(got))
	return errA == nil && errB == nil && a == b
}
