// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
)

// head begins every object below, as oc prints it.
const head = `apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata:
  annotations:
    example.com/note: |
      several lines,
        # one of which is no comment

      and a blank one
    example.com/long: a text that is longer than eighty characters, which some writers of YAML would fold into two lines
  creationTimestamp: "2026-01-02T03:04:05Z"
  generation: 3
  name: cluster
  resourceVersion: "123456"
  uid: 01234567-89ab-cdef-0123-456789abcdef
`

const status = `status:
  conditions:
  - lastTransitionTime: "2026-01-02T03:04:05Z"
    message: ''
    status: "False"
    type: Degraded
  nodeDisruptionPolicyStatus:
    clusterPolicies:
      files:
      - actions:
        - type: None
        path: /etc/mco/internal-registry-pull-secret.json
  observedGeneration: 3
  readyReplicas: 0
`

const ourFiles = `    - path: /etc/http01-proxyd
      actions:
      - type: None
    - path: /usr/local/bin/http01-proxyd-install
      actions:
      - type: None
    - path: /usr/local/lib/systemd/catalog/http01-proxyd.catalog
      actions:
      - type: None
`

const ourUnits = `    - name: http01-proxyd.service
      actions:
      - type: DaemonReload
      - type: Restart
        restart:
          serviceName: http01-proxyd-install.service
    - name: http01-proxyd-table.service
      actions:
      - type: DaemonReload
    - name: http01-proxyd-install.service
      actions:
      - type: DaemonReload
      - type: Restart
        restart:
          serviceName: http01-proxyd-install.service
    - name: http01-proxyd-install.timer
      actions:
      - type: DaemonReload
`

const foreignFiles = `    # chrony: agreed with the network team
    - actions: # both are needed
      - restart:
          serviceName: chronyd.service
        type: Restart
      path: /etc/chrony.conf
    - actions:
      - type: None
      path: /etc/aaa
`

const foreignUnits = `    - actions:
      - type: Drain
      - reload:
          serviceName: crio.service
        type: Reload
      name: auditd.service
`

// bare is spec without a policy.
const bare = "spec:\n  logLevel: Normal\n  managementState: Managed\n  operatorLogLevel: Normal\n"

const ourChanges = `added files /etc/http01-proxyd with the actions [None]
added files /usr/local/bin/http01-proxyd-install with the actions [None]
added files /usr/local/lib/systemd/catalog/http01-proxyd.catalog with the actions [None]
added units http01-proxyd.service with the actions [DaemonReload, Restart http01-proxyd-install.service]
added units http01-proxyd-table.service with the actions [DaemonReload]
added units http01-proxyd-install.service with the actions [DaemonReload, Restart http01-proxyd-install.service]
added units http01-proxyd-install.timer with the actions [DaemonReload]`

// object puts an object together as oc prints it.
func object(files, units string) string {
	out := head + bare
	if files+units != "" {
		out += "  nodeDisruptionPolicy:\n"
	}
	if files != "" {
		out += "    files:\n" + files
	}
	if units != "" {
		out += "    units:\n" + units
	}
	return out + status
}

// TestMerge: byte for byte what was there, and our entries behind it.
func TestMerge(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		current, want, changes string
	}{
		"no policy":              {object("", ""), "", ourChanges},
		"foreign entries":        {object(foreignFiles, foreignUnits), object(foreignFiles+ourFiles, foreignUnits+ourUnits), ourChanges},
		"already there":          {object(ourFiles, ourUnits), object(ourFiles, ourUnits), ""},
		"there, between foreign": {object(ourFiles+foreignFiles, foreignUnits+ourUnits), object(ourFiles+foreignFiles, foreignUnits+ourUnits), ""},
		"files alone":            {object(foreignFiles, ""), object(foreignFiles+ourFiles, ourUnits), ourChanges},
		"units there": {
			object(foreignFiles, ourUnits+foreignUnits), object(foreignFiles+ourFiles, ourUnits+foreignUnits),
			strings.Join(strings.Split(ourChanges, "\n")[:3], "\n"),
		},
		"no newline at the end": {
			strings.TrimSuffix(head+"spec: {}", "\n"), head + "spec:\n  nodeDisruptionPolicy:\n    files:\n" + ourFiles + "    units:\n" + ourUnits, ourChanges,
		},
		"empty spec": {head + "spec: {}\n" + status, head + "spec:\n  nodeDisruptionPolicy:\n    files:\n" + ourFiles + "    units:\n" + ourUnits + status, ourChanges},
		"null spec":  {head + "spec: null\n" + status, head + "spec:\n  nodeDisruptionPolicy:\n    files:\n" + ourFiles + "    units:\n" + ourUnits + status, ourChanges},
		"no spec":    {head, head + "spec:\n  nodeDisruptionPolicy:\n    files:\n" + ourFiles + "    units:\n" + ourUnits, ourChanges},
		"null policy": {
			head + "spec:\n  nodeDisruptionPolicy:\n  logLevel: Normal\n",
			head + "spec:\n  nodeDisruptionPolicy:\n    files:\n" + ourFiles + "    units:\n" + ourUnits + "  logLevel: Normal\n", ourChanges,
		},
		"null lists": {
			head + "spec:\n  nodeDisruptionPolicy:\n    files: null\n    units: ~\n",
			head + "spec:\n  nodeDisruptionPolicy:\n    files:\n" + ourFiles + "    units:\n" + ourUnits, ourChanges,
		},
		"empty lists": {
			head + "spec:\n  nodeDisruptionPolicy:\n    sshkey:\n      actions:\n      - type: None\n    files: []\n    units: []\n",
			head + "spec:\n  nodeDisruptionPolicy:\n    sshkey:\n      actions:\n      - type: None\n    files:\n" + ourFiles + "    units:\n" + ourUnits, ourChanges,
		},
		"deeper dashes": {
			"apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata:\n    name: cluster\nspec:\n    nodeDisruptionPolicy:\n        units:\n            - name: x.service\n              actions:\n                - type: None\n",
			"apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata:\n    name: cluster\nspec:\n    nodeDisruptionPolicy:\n        units:\n            - name: x.service\n              actions:\n                - type: None\n" +
				deeper(ourUnits) + "        files:\n" + deeper(ourFiles), "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.want == "" {
				tt.want = object("", "")
				tt.want = strings.Replace(tt.want, bare, bare+"  nodeDisruptionPolicy:\n    files:\n"+ourFiles+"    units:\n"+ourUnits, 1)
			}
			got, err := disruption.InstallerPolicy().Merge("c.yaml", []byte(tt.current), false)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got.Text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.changes, strings.Join(got.Changes, "\n")); diff != "" && name != "deeper dashes" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if len(got.Warnings) > 0 {
				t.Errorf("warnings: %q", got.Warnings)
			}
			again, err := disruption.InstallerPolicy().Merge("c.yaml", got.Text, false)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(got.Text), string(again.Text)); diff != "" || len(again.Changes) > 0 {
				t.Errorf("a second merge changes %q (-first +second):\n%s", again.Changes, diff)
			}
		})
	}
}

// deeper writes our entries with four spaces and dashes further in.
func deeper(entries string) string {
	var list []any
	if err := yaml.Load([]byte(entries), &list); err != nil {
		panic(err)
	}
	out := strings.NewReplacer(
		"\n    - ", "\n            - ",
		"\n      actions:", "\n              actions:",
		"\n      - type", "\n                - type",
		"\n        restart:", "\n                  restart:",
		"\n          serviceName", "\n                    serviceName",
	).Replace("\n" + entries)
	return out[1:]
}

// TestRemove: what Merge has added goes again, and nothing else.
func TestRemove(t *testing.T) {
	t.Parallel()
	for name, current := range map[string]string{
		"no policy":       object("", ""),
		"foreign entries": object(foreignFiles, foreignUnits),
		"files alone":     object(foreignFiles, ""),
		"units alone":     object("", foreignUnits),
		"empty spec":      head + "spec: {}\n" + status,
		"ssh":             head + "spec:\n  nodeDisruptionPolicy:\n    sshkey:\n      actions:\n      - type: None\n" + status,
		"JSON":            asJSON(object(foreignFiles, foreignUnits)),
		"JSON, no policy": asJSON(object("", "")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			merged, err := disruption.InstallerPolicy().Merge("c", []byte(current), false)
			if err != nil {
				t.Fatal(err)
			}
			got, err := disruption.InstallerPolicy().Remove("c", merged.Text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(current, string(got.Text)); diff != "" {
				t.Errorf("(-before +after merge and removal):\n%s", diff)
			}
			want := []string{
				"removed files /etc/http01-proxyd", "removed files /usr/local/bin/http01-proxyd-install", "removed files /usr/local/lib/systemd/catalog/http01-proxyd.catalog",
				"removed units http01-proxyd.service", "removed units http01-proxyd-table.service", "removed units http01-proxyd-install.service", "removed units http01-proxyd-install.timer",
			}
			if diff := cmp.Diff(want, got.Changes); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			none, err := disruption.InstallerPolicy().Remove("c", []byte(current))
			if err != nil || string(none.Text) != current || len(none.Changes)+len(none.Warnings) > 0 {
				t.Errorf("a removal of nothing: %v, %q, %q", err, none.Changes, none.Warnings)
			}
		})
	}
}

// TestRemoveKeepsForeign: an entry under our key that is not ours stays.
func TestRemoveKeepsForeign(t *testing.T) {
	t.Parallel()
	theirs := "    - path: /etc/http01-proxyd\n      actions:\n      - type: Drain\n"
	current := object(theirs, ourUnits)
	got, err := disruption.InstallerPolicy().Remove("c", []byte(current))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(object(theirs, ""), string(got.Text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"files /etc/http01-proxyd stays: its actions are [Drain], not ours, [None]"}, got.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// asJSON writes an object as oc does: keys in order, four spaces.
func asJSON(text string) string {
	var object any
	if err := yaml.Load([]byte(text), &object); err != nil {
		panic(err)
	}
	out, err := json.MarshalIndent(object, "", "    ")
	if err != nil {
		panic(err)
	}
	return string(out) + "\n"
}

// TestMergeJSON: JSON in, JSON out, in the order that it had.
func TestMergeJSON(t *testing.T) {
	t.Parallel()
	current := asJSON(object(foreignFiles, foreignUnits))
	current = strings.Replace(current, `"several lines`, `"<several> 😀 \u0001 lines`, 1)
	current = strings.ReplaceAll(strings.ReplaceAll(current, "<", `\u003c`), ">", `\u003e`) // as Go escapes them
	got, err := disruption.InstallerPolicy().Merge("c.json", []byte(current), false)
	if err != nil {
		t.Fatal(err)
	}
	lines := func(s string) map[string]int {
		count := make(map[string]int)
		for line := range strings.SplitSeq(s, "\n") {
			count[strings.TrimSuffix(line, ",")]++
		}
		return count
	}
	before, after := lines(current), lines(string(got.Text))
	for line, n := range before {
		if after[line] < n {
			t.Errorf("line %q stands %d times, not %d", line, after[line], n)
		}
	}
	var decoded struct {
		Spec struct {
			NodeDisruptionPolicy struct {
				Files []struct{ Path string }
				Units []struct{ Name string }
			}
		}
	}
	if err := json.Unmarshal(got.Text, &decoded); err != nil {
		t.Fatal(err)
	}
	want := "[{/etc/chrony.conf} {/etc/aaa} {/etc/http01-proxyd} {/usr/local/bin/http01-proxyd-install} {/usr/local/lib/systemd/catalog/http01-proxyd.catalog}] [{auditd.service} {http01-proxyd.service} {http01-proxyd-table.service} {http01-proxyd-install.service} {http01-proxyd-install.timer}]"
	if got := fmt.Sprint(decoded.Spec.NodeDisruptionPolicy.Files, decoded.Spec.NodeDisruptionPolicy.Units); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestConflict: like server-side apply, unless it is forced.
func TestConflict(t *testing.T) {
	t.Parallel()
	theirs := `    - actions: # ours
      - type: Drain
      - restart:
          serviceName: x.service
        type: Restart
      name: http01-proxyd.service
`
	current := object("    - actions:\n      - type: Reboot\n      path: /etc/http01-proxyd\n"+foreignFiles, foreignUnits+theirs)
	_, err := disruption.InstallerPolicy().Merge("c.yaml", []byte(current), false)
	want := []string{
		"c.yaml:22:7: an entry of files for /etc/http01-proxyd is there with the actions [Reboot], not with ours, [None]: agree with whoever wrote it, or replace it with --force",
		"c.yaml:41:7: an entry of units for http01-proxyd.service is there with the actions [Drain, Restart x.service], not with ours, [DaemonReload, Restart http01-proxyd-install.service]: agree with whoever wrote it, or replace it with --force",
	}
	if err == nil {
		t.Fatal("accepted")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got, err := disruption.InstallerPolicy().Merge("c.yaml", []byte(current), true)
	if err != nil {
		t.Fatal(err)
	}
	forced := object("    - actions:\n      - type: None\n      path: /etc/http01-proxyd\n"+foreignFiles+strings.SplitAfterN(ourFiles, "\n", 4)[3], foreignUnits+`    - actions: # ours
      - type: DaemonReload
      - type: Restart
        restart:
          serviceName: http01-proxyd-install.service
      name: http01-proxyd.service
`+strings.SplitAfterN(ourUnits, "\n", 7)[6])
	if diff := cmp.Diff(forced, string(got.Text)); diff != "" {
		t.Errorf("forced (-want +got):\n%s", diff)
	}
	if want := "replaced the actions of files /etc/http01-proxyd, which were [Reboot], by [None]"; got.Changes[0] != want {
		t.Errorf("changes: %q", got.Changes)
	}
}

// TestExtraFieldsAreNotOurs: an action with more than we know is not ours,
// though what we know of it is the same.
func TestExtraFieldsAreNotOurs(t *testing.T) {
	t.Parallel()
	current := object("    - actions:\n      - type: None\n        future: x\n      path: /etc/http01-proxyd\n", "")
	if _, err := disruption.InstallerPolicy().Merge("c", []byte(current), false); err == nil {
		t.Error("accepted")
	}
	got, err := disruption.InstallerPolicy().Remove("c", []byte(current))
	if err != nil || string(got.Text) != current || len(got.Warnings) != 1 {
		t.Errorf("%v, %q", err, got.Warnings)
	}
}

// TestLimit: the API takes fifty entries in a list.
func TestLimit(t *testing.T) {
	t.Parallel()
	for foreign, want := range map[int]string{
		47: "", // with our three files that makes fifty
		48: "c.yaml:22:5: with ours the list files would have 51 entries, and the API takes 50: take 1 away that are not needed, or cover several files by one directory",
		49: "c.yaml:22:5: with ours the list files would have 52 entries, and the API takes 50: take 2 away that are not needed, or cover several files by one directory",
	} {
		var files strings.Builder
		for i := range foreign {
			fmt.Fprintf(&files, "    - actions:\n      - type: None\n      path: /etc/%d\n", i)
		}
		got, err := disruption.InstallerPolicy().Merge("c.yaml", []byte(object(files.String(), "")), false)
		if want != "" {
			if err == nil || err.Error() != want {
				t.Errorf("%d foreign entries: %v", foreign, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%d foreign entries: %v", foreign, err)
		}
		if diff := cmp.Diff(object(files.String()+ourFiles, ourUnits), string(got.Text)); diff != "" {
			t.Errorf("%d foreign entries (-want +got):\n%s", foreign, diff)
		}
	}
}

// TestCloserEntry: what wins over ours, by the machine-config-operator's rule,
// is named; what does not is not.
func TestCloserEntry(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][]string{
		"/etc/http01-proxyd/config.yaml": {"a change of /etc/http01-proxyd/config.yaml is followed by [Drain]: the entry for /etc/http01-proxyd/config.yaml is closer to it than ours for /etc/http01-proxyd: remove that entry, or expect this"},
		"/etc/http01-proxyd/":            {"a change of /etc/http01-proxyd/config.yaml is followed by [Drain]: the entry for /etc/http01-proxyd/ is closer to it than ours for /etc/http01-proxyd: remove that entry, or expect this", "a change of /etc/http01-proxyd/ca-bundle.crt is followed by [Drain]: the entry for /etc/http01-proxyd/ is closer to it than ours for /etc/http01-proxyd: remove that entry, or expect this"},
		"/etc":                           nil,
		"/usr/local/bin":                 nil,
		"/etc/http01-proxyd/other":       nil,
		"/etc/http01-proxyd-x":           nil,
	} {
		got, err := disruption.InstallerPolicy().Merge("c", []byte(object("    - path: "+path+"\n      actions:\n      - type: Drain\n", "")), false)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Warnings); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// TestRefused: what is not the object, or cannot be changed without touching
// what is not ours.
func TestRefused(t *testing.T) {
	t.Parallel()
	const get = `: give what "oc get machineconfiguration cluster -o yaml" prints`
	inPolicy := func(text string) string { return head + "spec:\n  nodeDisruptionPolicy:\n" + text }
	for name, tt := range map[string]struct{ text, want string }{
		"empty":           {"", "c: neither YAML nor JSON (it is empty)" + get},
		"a list":          {"- a\n", "c: not an object" + get},
		"two documents":   {object("", "") + "---\n" + object("", ""), "c: neither YAML nor JSON (it holds more than one document)" + get},
		"torn JSON":       {`{"apiVersion": "operator.openshift.io/v1"`, ""},
		"another object":  {"apiVersion: v1\nkind: List\nitems: []\n", "c: apiVersion is \"v1\", not \"operator.openshift.io/v1\"" + get + "\nc: kind is \"List\", not \"MachineConfiguration\"" + get + "\nc: name is \"\", not \"cluster\"" + get},
		"spec is a list":  {head + "spec:\n- a\n", "c:17:1: spec is something else than the API has" + get},
		"files is a map":  {inPolicy("    files: {a: b}\n"), "c:18:12: files is something else than the API has" + get},
		"entry is a text": {inPolicy("    files:\n    - /etc/x\n"), "c:19:7: an entry of files is not a mapping: write the entry out, with path and actions"},
		"entry, no key":   {inPolicy("    units:\n    - actions: []\n"), "c:19:7: an entry of units without name: give it one"},
		"twice":           {inPolicy("    units:\n    - name: a\n    - name: a\n"), "c:20:7: two entries of units for \"a\": keep one"},
		"key twice":       {head + "spec: {}\nspec: {}\n", ""},
		"alias":           {inPolicy("    units: &u\n    - name: a\n"), "c:18:12: units has an anchor or is an alias: write the value out"},
		"too long":        {object("", "") + strings.Repeat("#\n", 2<<20), "c: longer than 2097152 bytes" + get},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := disruption.InstallerPolicy().Merge("c", []byte(tt.text), false)
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" && tt.want != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tt.want == "" && (!strings.HasPrefix(err.Error(), "c") || !strings.Contains(err.Error(), ": ")) {
				t.Errorf("%v", err)
			}
		})
	}
}
