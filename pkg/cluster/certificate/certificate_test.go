// SPDX-License-Identifier: Apache-2.0

package certificate_test

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/certificate"
)

func request() certificate.Request {
	return certificate.Request{
		API: "api.example.com", Names: []string{"kube.example.com", "API.example.com"},
		Hosts: []string{"api.example.com", "kube.example.com"}, Issuer: certificate.LetsEncrypt,
	}
}

// render returns the text of each file.
func render(t *testing.T, r certificate.Request) map[string]string {
	t.Helper()
	files, err := certificate.Files(r)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range files {
		all[f.Path] = string(f.Text)
	}
	return all
}

// existing returns the rendered Certificate.
func existing(t *testing.T, r certificate.Request) (e certificate.Existing) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(render(t, r)[certificate.Folder+"/certificate.yaml"]), &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestProfiles: with each profile, cert-manager renews before the end and after the start, and only
// short lifetimes need a shorter delay after a failure.
func TestProfiles(t *testing.T) {
	t.Parallel()
	for name, short := range map[string]bool{"classic": false, "tlsserver": false, "shortlived": true} {
		r := request()
		r.Profile = name
		spec := existing(t, r).Spec
		duration, err := time.ParseDuration(spec["duration"].(string))
		if err != nil {
			t.Fatal(err)
		}
		before, err := time.ParseDuration(spec["renewBefore"].(string))
		if err != nil {
			t.Fatal(err)
		}
		if before < duration/3 || before > duration/2 {
			t.Errorf("%s: %v before the end of %v", name, before, duration)
		}
		files := render(t, r)
		if !strings.Contains(files[certificate.Folder+"/issuer.yaml"], `profile: "`+name+`"`) {
			t.Errorf("the issuer has no profile %s", name)
		}
		if got := strings.Contains(files[certificate.Folder+"/cert-manager.yaml"], "minimum-backoff"); got != short {
			t.Errorf("%s: a minimum backoff: %t", name, got)
		}
	}
}

// TestStaging: a certificate of the staging CA never replaces the Secret of the other one.
func TestStaging(t *testing.T) {
	t.Parallel()
	production, r := existing(t, request()), request()
	r.Issuer = certificate.Staging
	staging := existing(t, r)
	if a, b := production.Spec["secretName"], staging.Spec["secretName"]; a == b || a == nil || b == nil {
		t.Errorf("both use the Secret %v", a)
	}
}

// TestCheckExisting: only a Certificate of the same namespace with other settings is rejected.
func TestCheckExisting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(e *certificate.Existing)
		want   string
	}{
		"the same":         {func(*certificate.Existing) {}, ""},
		"another form":     {func(e *certificate.Existing) { e.Spec["duration"] = "2160h0m0s" }, ""},
		"one more setting": {func(e *certificate.Existing) { e.Spec["revisionHistoryLimit"] = 3 }, ""},
		"other numbers":    {func(e *certificate.Existing) { e.Spec["privateKey"].(map[string]any)["size"] = int64(256) }, ""},
		"the default group": {func(e *certificate.Existing) {
			delete(e.Spec["issuerRef"].(map[string]any), "group")
		}, ""},
		"usages": {
			func(e *certificate.Existing) { e.Spec["usages"] = []any{"client auth"} },
			"spec.usages: is set, and the rendered Certificate does not have it",
		},
		"no key": {
			func(e *certificate.Existing) { delete(e.Spec, "privateKey") }, "spec.privateKey.size: is not set, want 256",
		},
		"elsewhere": {func(e *certificate.Existing) {
			e.Metadata.Namespace, e.Spec["dnsNames"] = "apps", nil
		}, ""},
		"a name less": {
			func(e *certificate.Existing) { e.Spec["dnsNames"] = []any{"api.example.com"} },
			"x.yaml: the Certificate api-certificate: spec.dnsNames: is [api.example.com], " +
				"want [api.example.com kube.example.com]: give the same settings, or change the Certificate first and export it again",
		},
		"an inner field": {
			func(e *certificate.Existing) { e.Spec["privateKey"].(map[string]any)["algorithm"] = "RSA" },
			"spec.privateKey.algorithm: is RSA, want ECDSA",
		},
		"another Certificate for the Secret": {
			func(e *certificate.Existing) { e.Metadata.Name = "mine" }, "the Certificate mine: spec.secretName: also writes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request()
			r.Profile = "classic"
			e := existing(t, r)
			c.change(&e)
			err := r.CheckExisting("x.yaml", e)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
