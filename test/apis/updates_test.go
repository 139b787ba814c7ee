// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"
)

// states are all that the field can be; a change of the port is an update too.
func states() map[string]string {
	return map[string]string{
		"absent":       "",
		"disabled":     `{mode: ""}`,
		"default":      "{mode: DefaultDeployment}",
		"custom":       custom("9888"),
		"another port": custom("9889"),
	}
}

// From each to each, and to itself: as `oc replace`, as a merge patch that
// clears what is not wanted, and as `oc apply --server-side` of one manager.
func TestUpdates(t *testing.T) {
	for from, before := range states() {
		for to, after := range states() {
			t.Run(from+" to "+to, func(t *testing.T) {
				s := open(t).patched
				if err := s.Update(object(before), object(after)); err != nil {
					t.Errorf("refused: %v", err)
				}
				stored, _, err := s.Replace(object(before), object(after))
				must(t, err)
				sameField(t, after, stored)

				stored, _, err = s.Replace(object(before), merged(t, object(before), clearing(after)))
				if err != nil {
					t.Fatalf("merge patch %s: %v", clearing(after), err)
				}
				sameField(t, after, stored)

				live, err := s.Apply(nil, object(before), "admin", false)
				must(t, err)
				stored, err = s.Apply(live, object(after), "admin", false)
				if err != nil {
					t.Fatalf("server-side apply: %v", err)
				}
				sameField(t, after, stored)
			})
		}
	}
}

// clearing is the merge patch that docs/api.md gives for a state.
func clearing(value string) string {
	switch {
	case value == "":
		return "{spec: {http01ChallengeProxy: null}}"
	case strings.Contains(value, "customDeployment"):
		return "{spec: {http01ChallengeProxy: " + value + "}}"
	}
	return "{spec: {http01ChallengeProxy: " + strings.TrimSuffix(value, "}") + ", customDeployment: null}}}"
}

// A merge patch of the mode alone leaves the settings of a custom deployment
// behind, and is refused.
func TestUpdatesOfTheModeAlone(t *testing.T) {
	for _, tt := range []struct{ from, mode, want string }{
		{custom("9888"), "DefaultDeployment", union},
		{custom("9888"), `""`, union},
		{custom("9888"), "CustomDeployment", ""},
		{"{mode: DefaultDeployment}", "CustomDeployment", union},
		{"{mode: DefaultDeployment}", `""`, ""},
		{`{mode: ""}`, "DefaultDeployment", ""},
		{`{mode: ""}`, "CustomDeployment", union},
		{"", "DefaultDeployment", ""},
		{"", "CustomDeployment", union},
		{"{mode: DefaultDeployment}", "null", field + ".mode: Required value"},
	} {
		t.Run(tt.from+" to "+tt.mode, func(t *testing.T) {
			after := merged(t, object(tt.from), "{spec: {http01ChallengeProxy: {mode: "+tt.mode+"}}}")
			_, _, err := open(t).patched.Replace(object(tt.from), after)
			verdict(t, err, tt.want)
		})
	}
}

// What was stored before the rules were there passes as long as it is left
// alone, so that the patch locks nobody out of the other fields; a change of it
// has to make it right.
func TestRatcheting(t *testing.T) {
	const both = "{mode: DefaultDeployment, customDeployment: {internalPort: 9888}}"
	audit := func(value string) string { return value + "\n  audit: {profile: None}" }
	for _, tt := range []struct{ name, before, after, want string }{
		{"a bad port left alone", custom("80"), audit(custom("80")), ""},
		{"a bad port for another", custom("80"), custom("81"), portPath + ": Invalid value: 81: " + portPath + " in body should be greater than or equal to 1024"},
		{"a bad port mended", custom("80"), custom("9888"), ""},
		{"a bad mode left alone", "{mode: Disabled}", audit("{mode: Disabled}"), ""},
		{"a bad mode for another", "{mode: Disabled}", "{mode: Never}", field + `.mode: Unsupported value: "Never": ` + modes},
		{"a bad mode mended", "{mode: Disabled}", `{mode: ""}`, ""},
		{"a bad union left alone", both, audit(both), ""},
		{"a bad union for another", both, strings.Replace(both, "9888", "9889", 1), union},
		{"a bad union mended", both, "{mode: DefaultDeployment}", ""},
		{"good, then a bad port", custom("9888"), custom("80"), portPath + ": Invalid value: 80: " + portPath + " in body should be greater than or equal to 1024"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := open(t).patched.Update(object(tt.before), object(tt.after))
			verdict(t, err, tt.want)
		})
	}
}

// merged is the document with a JSON merge patch (RFC 7386), as the API server
// makes it of `oc patch --type=merge`.
func merged(t *testing.T, document []byte, patch string) []byte {
	t.Helper()
	raw := must1(yaml.YAMLToJSON([]byte(patch)))(t)
	o := must1(yaml.YAMLToJSON(document))(t)
	return must1(yaml.JSONToYAML(must1(jsonpatch.MergePatch(o, raw))(t)))(t)
}
