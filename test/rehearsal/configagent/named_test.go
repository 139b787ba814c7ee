// SPDX-License-Identifier: Apache-2.0

package configagent

import (
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
)

// named returns an entry of namedCertificates.
func named(secret string, names ...string) configv1.APIServerNamedServingCert {
	return configv1.APIServerNamedServingCert{
		Names: names, ServingCertificate: configv1.SecretNameReference{Name: secret},
	}
}

// TestNamedSecret: an entry that the operator rejects keeps the certificate that the API servers
// present, whatever the other entries are.
func TestNamedSecret(t *testing.T) {
	t.Parallel()
	type entries = []configv1.APIServerNamedServingCert
	ours, other := named("a", "api.example.com"), named("b", "other.example.com")
	for name, tt := range map[string]struct {
		entries entries
		want    string
		err     string
	}{
		"none":            {nil, "", ""},
		"one":             {entries{ours}, "a", ""},
		"the second one":  {entries{other, ours}, "a", ""},
		"without names":   {entries{other, named("a")}, "a", ""},
		"of others":       {entries{other}, "", ""},
		"ten":             {append(slices.Repeat(entries{named("b")}, 9), ours), "b", ""},
		"eleven":          {append(slices.Repeat(entries{named("b")}, 10), ours), "", "11 entries"},
		"a missing one":   {entries{ours, named("z", "z.example.com")}, "", `"z" does not exist`},
		"a repeated name": {entries{ours, named("b", "api.example.com")}, "", "repeats the name"},
		"no Secret":       {entries{ours, named("")}, "", "namedCertificates[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := namedSecret(tt.entries, "api.example.com", func(secret string) bool { return secret != "z" })
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v, want %q, %q", got, err, tt.want, tt.err)
			}
		})
	}
}
