// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	manager      = "http01-proxyd"
	otherManager = "admin"
)

// policyWith returns a policy with the given files. Each reloads its service, or does
// nothing without one.
func policyWith(files ...[2]string) []byte {
	var b strings.Builder
	b.WriteString(policyHead + "    units: []\n    files:\n")
	for _, f := range files {
		action := "{type: None}"
		if f[1] != "" {
			action = "{type: Reload, reload: {serviceName: " + f[1] + "}}"
		}
		b.WriteString("    - {path: " + f[0] + ", actions: [" + action + "]}\n")
	}
	return []byte(strings.Replace(b.String(), "files:\n", "files:"+map[bool]string{true: " []"}[len(files) == 0]+"\n", 1))
}

// filePaths returns the paths of a policy's files in order.
func filePaths(t *testing.T, object []byte) []string {
	t.Helper()
	var o struct {
		Spec struct {
			NodeDisruptionPolicy struct {
				Files []struct{ Path string }
			}
		}
	}
	must(t, yaml.Unmarshal(object, &o))
	var all []string
	for _, f := range o.Spec.NodeDisruptionPolicy.Files {
		all = append(all, f.Path)
	}
	return all
}

// TestApply applies a policy in a cluster whose administrator has one.
func TestApply(t *testing.T) {
	j := testValidator(t)
	apply := func(t *testing.T, live, applied []byte, manager string) []byte {
		t.Helper()
		merged, err := j.Apply(live, applied, manager, false)
		must(t, err)
		return merged
	}
	other := policyWith([2]string{"/etc/z", "z.service"}, [2]string{"/etc/a", ""})
	fragment := policyWith([2]string{"/etc/http01-proxyd", ""}, [2]string{"/etc/b", ""})

	for _, tt := range []struct {
		name string
		live func(t *testing.T) []byte
	}{
		{"applied by another manager", func(t *testing.T) []byte { t.Helper(); return apply(t, nil, other, otherManager) }},
		{"made in any other way", func(*testing.T) []byte { return other }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			live := tt.live(t)
			merged := apply(t, live, fragment, manager)
			want := []string{"/etc/z", "/etc/a", "/etc/http01-proxyd", "/etc/b"}
			if diff := cmp.Diff(want, filePaths(t, merged)); diff != "" {
				t.Fatalf("files after the first apply (-want +got):\n%s", diff)
			}
			again := apply(t, merged, fragment, manager)
			if diff := cmp.Diff(string(merged), string(again)); diff != "" {
				t.Errorf("a second apply (-first +second):\n%s", diff)
			}
			gone := apply(t, again, policyWith(), manager)
			if diff := cmp.Diff([]string{"/etc/z", "/etc/a"}, filePaths(t, gone)); diff != "" {
				t.Errorf("files after an empty apply (-want +got):\n%s", diff)
			}
		})
	}
}

// TestApplyConflict holds that an entry of another manager with other actions is a conflict
// unless forced, and that equal actions are shared.
func TestApplyConflict(t *testing.T) {
	j := testValidator(t)
	live, err := j.Apply(nil, policyWith([2]string{"/etc/a", "a.service"}, [2]string{"/etc/b", "b.service"}), otherManager, false)
	must(t, err)
	fragment := policyWith([2]string{"/etc/a", ""}, [2]string{"/etc/b", "b.service"})
	_, err = j.Apply(live, fragment, manager, false)
	var conflicts Conflicts
	if !errors.As(err, &conflicts) {
		t.Fatalf("error: %v", err)
	}
	want := Conflicts{{
		Field:   `.spec.nodeDisruptionPolicy.files[path="/etc/a"].actions`,
		Message: `conflict with "admin"`,
	}}
	if diff := cmp.Diff(want, conflicts); diff != "" {
		t.Errorf("conflicts (-want +got):\n%s", diff)
	}
	if want := `conflicts: .spec.nodeDisruptionPolicy.files[path="/etc/a"].actions: conflict with "admin"`; err.Error() != want {
		t.Errorf("error: %v", err)
	}

	merged, err := j.Apply(live, fragment, manager, true)
	must(t, err)
	if text := string(merged); strings.Contains(text, "serviceName: a.service") || !strings.Contains(text, "serviceName: b.service") {
		t.Errorf("after force:\n%s", text)
	}
	// The administrator still owns the entry, but no longer its actions. Without ours it is
	// invalid, so the administrator must restore it.
	_, err = j.Apply(merged, policyWith(), manager, false)
	checkError(t, err, "files[0].actions: Required value")
	back, err := j.Apply(merged, policyWith([2]string{"/etc/a", "a.service"}, [2]string{"/etc/b", "b.service"}), otherManager, true)
	must(t, err)
	gone, err := j.Apply(back, policyWith(), manager, false)
	must(t, err)
	if got := filePaths(t, gone); !slices.Equal(got, []string{"/etc/a", "/etc/b"}) {
		t.Errorf("shared keys were removed: %q", got)
	}
}

// TestApplyRefuses holds that the result is validated too.
func TestApplyRefuses(t *testing.T) {
	j := testValidator(t)
	var many [][2]string
	for i := range 30 {
		many = append(many, [2]string{"/etc/" + strings.Repeat("x", i+1), ""})
	}
	var more [][2]string
	for _, m := range many {
		more = append(more, [2]string{m[0] + "y", ""})
	}
	tests := []struct {
		name          string
		live, applied []byte
		want          string
	}{
		{"together over 50", policyWith(many...), policyWith(more...), "Too many: 60: must have at most 50 items"},
		{"a bad new object", nil, policyWith([2]string{"/etc/a", "a"}), "Invalid ${SERVICETYPE} in service name"},
		{"an unknown field", nil, []byte(policyHead + "    unit: []\n"), `unknown field "spec.nodeDisruptionPolicy.unit"`},
		{"managed fields in what is applied", nil, []byte(strings.Replace(string(policyWith()), "{name: cluster}", "{name: cluster, managedFields: [{manager: a}]}", 1)), "managedFields must be nil"},
		{"another object", []byte(strings.Replace(string(policyWith()), "{name: cluster}", "{name: other}", 1)), policyWith(), `"cluster" cannot be applied to MachineConfiguration "other"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := j.Apply(tt.live, tt.applied, manager, false)
			checkError(t, err, tt.want)
		})
	}
}
