// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"
)

// fieldStates returns all values of the field. A change of the port is an update too.
func fieldStates() map[string]string {
	return map[string]string{
		"absent":       "",
		"disabled":     `{mode: ""}`,
		"default":      "{mode: DefaultDeployment}",
		"custom":       customField("9888"),
		"another port": customField("9889"),
	}
}

// TestUpdates updates from each state to each state with `oc replace`, a merge patch, and
// `oc apply --server-side`.
func TestUpdates(t *testing.T) {
	for from, before := range fieldStates() {
		for to, after := range fieldStates() {
			t.Run(from+" to "+to, func(t *testing.T) {
				s := testServers(t).patched
				if err := s.Update(objectWith(before), objectWith(after)); err != nil {
					t.Errorf("refused: %v", err)
				}
				stored, _, err := s.Replace(objectWith(before), objectWith(after))
				must(t, err)
				checkStoredField(t, after, stored)

				stored, _, err = s.Replace(objectWith(before), mergePatched(t, objectWith(before), mergePatchFor(after)))
				if err != nil {
					t.Fatalf("merge patch %s: %v", mergePatchFor(after), err)
				}
				checkStoredField(t, after, stored)

				live, err := s.Apply(nil, objectWith(before), "admin", false)
				must(t, err)
				stored, err = s.Apply(live, objectWith(after), "admin", false)
				if err != nil {
					t.Fatalf("server-side apply: %v", err)
				}
				checkStoredField(t, after, stored)
			})
		}
	}
}

// mergePatchFor returns the merge patch of docs/reference/api.md for a state.
func mergePatchFor(value string) string {
	switch {
	case value == "":
		return "{spec: {http01ChallengeProxy: null}}"
	case strings.Contains(value, "customDeployment"):
		return "{spec: {http01ChallengeProxy: " + value + "}}"
	}
	return "{spec: {http01ChallengeProxy: " + strings.TrimSuffix(value, "}") + ", customDeployment: null}}}"
}

// TestModeUpdates holds that a merge patch of the mode alone is rejected while the settings
// of a custom deployment remain.
func TestModeUpdates(t *testing.T) {
	for _, tt := range []struct{ from, mode, want string }{
		{customField("9888"), "DefaultDeployment", union},
		{customField("9888"), `""`, union},
		{customField("9888"), "CustomDeployment", ""},
		{"{mode: DefaultDeployment}", "CustomDeployment", union},
		{"{mode: DefaultDeployment}", `""`, ""},
		{`{mode: ""}`, "DefaultDeployment", ""},
		{`{mode: ""}`, "CustomDeployment", union},
		{"", "DefaultDeployment", ""},
		{"", "CustomDeployment", union},
		{"{mode: DefaultDeployment}", "null", field + ".mode: Required value"},
	} {
		t.Run(tt.from+" to "+tt.mode, func(t *testing.T) {
			after := mergePatched(t, objectWith(tt.from), "{spec: {http01ChallengeProxy: {mode: "+tt.mode+"}}}")
			_, _, err := testServers(t).patched.Replace(objectWith(tt.from), after)
			checkError(t, err, tt.want)
		})
	}
}

// TestRatcheting holds that a value stored before the rules existed stays valid while it is
// unchanged. A change must make it valid.
func TestRatcheting(t *testing.T) {
	const both = "{mode: DefaultDeployment, customDeployment: {internalPort: 9888}}"
	audit := func(value string) string { return value + "\n  audit: {profile: None}" }
	for _, tt := range []struct{ name, before, after, want string }{
		{"a bad port unchanged", customField("80"), audit(customField("80")), ""},
		{"a bad port, another bad port", customField("80"), customField("81"), portPath + ": Invalid value: 81: " + portPath +
			" in body should be greater than or equal to 1024"},
		{"a bad port corrected", customField("80"), customField("9888"), ""},
		{"a bad mode unchanged", "{mode: Disabled}", audit("{mode: Disabled}"), ""},
		{"a bad mode, another bad mode", "{mode: Disabled}", "{mode: Never}", field + `.mode: Unsupported value: "Never": ` +
			modes},
		{"a bad mode corrected", "{mode: Disabled}", `{mode: ""}`, ""},
		{"a bad union unchanged", both, audit(both), ""},
		{"a bad union, another bad union", both, strings.Replace(both, "9888", "9889", 1), union},
		{"a bad union corrected", both, "{mode: DefaultDeployment}", ""},
		{"good, then a bad port", customField("9888"), customField("80"), portPath + ": Invalid value: 80: " + portPath +
			" in body should be greater than or equal to 1024"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := testServers(t).patched.Update(objectWith(tt.before), objectWith(tt.after))
			checkError(t, err, tt.want)
		})
	}
}

// mergePatched returns the document with a JSON merge patch (RFC 7386), as `oc patch
// --type=merge` sends it.
func mergePatched(t *testing.T, document []byte, patch string) []byte {
	t.Helper()
	raw := must1(yaml.YAMLToJSON([]byte(patch)))(t)
	o := must1(yaml.YAMLToJSON(document))(t)
	return must1(yaml.JSONToYAML(must1(jsonpatch.MergePatch(o, raw))(t)))(t)
}
