// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"encoding/json"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"
)

// audited changes a field other than spec.http01ChallengeProxy.
const audited = "{spec: {audit: {profile: WriteRequestBodies}}}"

// typed returns the object as a client built with openshift/api sends it after change. That
// client does not have the field.
func typed(t *testing.T, document []byte, change func(*configv1.APIServer)) []byte {
	t.Helper()
	var o configv1.APIServer
	must(t, yaml.Unmarshal(document, &o))
	change(&o)
	return must1(json.Marshal(o))(t)
}

func audit(o *configv1.APIServer) { o.Spec.Audit.Profile = configv1.WriteRequestBodiesAuditProfileType }

func unchanged(*configv1.APIServer) {}

// TestOldClients changes another field with clients that do not have this field. A client
// that replaces the whole object removes the field silently, as docs/reference/api.md documents. A
// client that sends only its change keeps it.
func TestOldClients(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, live []byte) []byte
		keeps  bool
	}{
		{"typed client, update", func(t *testing.T, live []byte) []byte {
			t.Helper()
			return typed(t, live, audit)
		}, false},
		{"older file, replace", func(t *testing.T, _ []byte) []byte {
			t.Helper()
			return mergePatched(t, objectWith(""), audited)
		}, false},
		{"typed client, patch", func(t *testing.T, live []byte) []byte {
			t.Helper()
			patch := must1(jsonpatch.CreateMergePatch(typed(t, live, unchanged), typed(t, live, audit)))(t)
			return mergePatched(t, live, string(patch))
		}, true},
		{"untyped client, update", func(t *testing.T, live []byte) []byte {
			t.Helper()
			return mergePatched(t, live, audited)
		}, true},
	} {
		for state, value := range fieldStates() {
			t.Run(tt.name+"/"+state, func(t *testing.T) {
				live := objectWith(value)
				stored, warnings, err := testServers(t).patched.Replace(live, tt.change(t, live))
				if err != nil || warnings != nil {
					t.Fatalf("%v, warnings %q", err, warnings)
				}
				if !tt.keeps {
					value = ""
				}
				checkStoredField(t, value, stored)
				if !strings.Contains(string(stored), "profile: WriteRequestBodies") {
					t.Errorf("the client's own change is lost:\n%s", stored)
				}
			})
		}
	}
}

// TestOtherManagers applies another field before and after this one: this field stays.
// Another manager that applies this field gets a conflict until it uses force or the owner
// gives the field up.
func TestOtherManagers(t *testing.T) {
	s := testServers(t).patched
	apply := func(live []byte, value, manager string, force bool) []byte {
		t.Helper()
		return must1(s.Apply(live, []byte(value), manager, force))(t)
	}
	other := head + "spec: {audit: {profile: AllRequestBodies}}\n"
	live := apply(nil, other, "gitops", false)
	live = apply(live, string(objectWith(customField("9888"))), "admin", false)
	live = apply(live, strings.Replace(other, "AllRequestBodies", "None", 1), "gitops", false)
	checkStoredField(t, customField("9888"), live)

	_, err := s.Apply(live, objectWith("{mode: DefaultDeployment}"), "gitops", false)
	want := `conflicts: .` + field + `.mode: conflict with "admin"`
	if err == nil || err.Error() != want {
		t.Errorf("applied by another: %v\nnot: %s", err, want)
	}
	// The forced apply takes over the mode. The settings of the first manager stay.
	_, err = s.Apply(live, objectWith("{mode: DefaultDeployment}"), "gitops", true)
	checkError(t, err, union) // the forced mode does not remove the settings
	taken := apply(live, string(objectWith(customField("9889"))), "gitops", true)
	checkStoredField(t, customField("9889"), taken)

	// The only manager removes the field. The field of the other manager stays.
	gone := apply(live, string(objectWith("")), "admin", false)
	checkStoredField(t, "", gone)
	if !strings.Contains(string(gone), "profile: None") {
		t.Errorf("the field of the other manager is missing:\n%s", gone)
	}
}
