// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"
)

// referenceMerge returns the JSON that MicroShift unmarshals. It uses the libraries with
// which MicroShift reads its files.
func referenceMerge(files []file) (merged []byte, err error) {
	for _, f := range files {
		if len(bytes.TrimSpace(f.text)) == 0 {
			continue
		}
		text, err := yaml.YAMLToJSON(f.text)
		if err == nil && merged != nil {
			text, err = jsonpatch.MergePatch(merged, text)
		}
		if err != nil {
			return nil, err
		}
		merged = text
	}
	return merged, nil
}

// referenceConfig returns the Config of the reference.
func referenceConfig(files []file) (Config, error) {
	merged, err := referenceMerge(files)
	if err != nil {
		return Config{}, err
	}
	var w rawConfig
	if merged != nil {
		if err := json.Unmarshal(merged, &w); err != nil {
			return Config{}, err
		}
	}
	return w.validate()
}

// compareConfigs compares Configs. Empty lists equal absent ones.
func compareConfigs(t *testing.T, want, got Config) {
	t.Helper()
	for _, c := range []*Config{&want, &got} {
		if len(c.SubjectAltNames) == 0 {
			c.SubjectAltNames = nil
		}
		if len(c.NamedCertificates) == 0 {
			c.NamedCertificates = nil
		}
	}
	if want, got := configJSON(want), configJSON(got); want != got {
		t.Errorf("MicroShift has\n%s\nthis package has\n%s", want, got)
	}
}

func configJSON(c Config) string {
	out, err := json.Marshal(c)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func filesOf(all ...string) []file {
	files := make([]file, len(all))
	for i, text := range all {
		files[i] = file{path: string(rune('a' + i)), text: []byte(text)}
	}
	return files
}

// TestMatchesMicroShift compares the result with that of MicroShift's own libraries.
func TestMatchesMicroShift(t *testing.T) {
	t.Parallel()
	for name, files := range map[string][]file{
		"nothing":                            filesOf(),
		"only comments":                      filesOf("# a\n"),
		"comments, and a file":               filesOf("# a\n", "node: {nodeIP: 192.0.2.9}"),
		"a file, and comments":               filesOf("node: {nodeIP: 192.0.2.9}", "# a\n"),
		"comments, and an empty file":        filesOf("# a\n", "", " \n"),
		"two files with only comments":       filesOf("# a\n", "# b\n"),
		"null":                               filesOf("~"),
		"null, and a file":                   filesOf("null", "node: {nodeIP: 192.0.2.9}"),
		"a document's end":                   filesOf("---\n", "node: {nodeIP: 192.0.2.9}"),
		"an empty mapping":                   filesOf("{}", "node: {nodeIP: 192.0.2.9}", "{}"),
		"null in the first file":             filesOf("node: {nodeIP: null}", "node: {nodeIPv6: '2001:db8::9'}"),
		"null over a mapping":                filesOf("node: {nodeIP: 192.0.2.9}", "node: null", "node: {nodeIPv6: '2001:db8::9'}"),
		"a mapping over a string":            filesOf("node: x", "node: {nodeIP: 192.0.2.9, nodeIPv6: null}"),
		"a string over a mapping":            filesOf("node: {nodeIP: 192.0.2.9}", "node: x"),
		"a list over a list":                 filesOf("ingress: {listenAddress: [eth0, eth1]}", "ingress: {listenAddress: [null, eth2]}"),
		"null in a list's mapping":           filesOf("{}", "apiServer: {namedCertificates: [{certPath: /c, keyPath: null, names: [a, null]}]}"),
		"the same, over another file":        filesOf("apiServer: {namedCertificates: [{certPath: /d}]}", "apiServer: {namedCertificates: [{certPath: /c, keyPath: null}]}"),
		"a string, and a file":               filesOf("a", "node: {nodeIP: 192.0.2.9}"),
		"a file, and a string":               filesOf("node: {nodeIP: 192.0.2.9}", "a"),
		"a string only":                      filesOf("a"),
		"a list, and a file":                 filesOf("[a]", "node: {nodeIP: 192.0.2.9, nodeIPv6: null}"),
		"a file, and a list":                 filesOf("node: {nodeIP: 192.0.2.9}", "[a]"),
		"a list between files":               filesOf("node: {nodeIP: 192.0.2.9}", "[a]", "node: {nodeIPv6: '2001:db8::9'}"),
		"keys of both cases":                 filesOf("node: {nodeIP: 192.0.2.9}", "node: {nodeip: 192.0.2.10}"),
		"keys of both cases, in other order": filesOf("node: {nodeip: 192.0.2.10}", "node: {nodeIP: 192.0.2.9}", "Node: {nodeIPv6: '2001:db8::9'}"),
		"a boolean for a name":               filesOf("node: {hostnameOverride: yes}"),
		"a short boolean":                    filesOf("node: {hostnameOverride: n}"),
		"a quoted boolean":                   filesOf("node: {hostnameOverride: 'on'}"),
		"a tagged boolean":                   filesOf("node: {hostnameOverride: !!str off}"),
		"a date for a name":                  filesOf("node: {hostnameOverride: 2026-11-22}"),
		"a time for a name":                  filesOf("node: {hostnameOverride: 2026-11-22T04:05:06Z}"),
		"a number for a name":                filesOf("node: {hostnameOverride: 7}"),
		"a float for a port":                 filesOf("ingress: {ports: {http: 8e3}}"),
		"a fraction for a port":              filesOf("ingress: {ports: {http: 80.5}}"),
		"an octal port":                      filesOf("ingress: {ports: {http: 0120}}"),
		"a hexadecimal port":                 filesOf("ingress: {ports: {http: 0x50}}"),
		"underscores in a port":              filesOf("ingress: {ports: {http: 8_080}}"),
		"not a number for a port":            filesOf("ingress: {ports: {http: 0o8}}"),
		"a merge key":                        filesOf("a: &a {nodeIP: 192.0.2.9}\nnode: {<<: *a, nodeIPv6: '2001:db8::9'}\n"),
		"null after a key of another case":   filesOf("ingress: {ports: {HTTP: 8080, http: null}}"),
		"null after it, over another file":   filesOf("{}", "ingress: {ports: {HTTP: 8080, http: null}}"),
		"a merge key after its key":          filesOf("a: &a {nodeIP: 192.0.2.9}\nnode: {nodeIP: 192.0.2.10, <<: *a}\n"),
		"a tagged time":                      filesOf("node: {hostnameOverride: !!timestamp 2026-11-22}"),
		"not a time, tagged as one":          filesOf("node: {hostnameOverride: !!timestamp edge}"),
		"a tagged truth value":               filesOf("ingress: {listenAddress: [!!bool yes]}"),
		"another tagged boolean":             filesOf("a: !!bool yes\nnode: {nodeIP: 192.0.2.9}"),
		"an escaped slash":                   filesOf("network: {serviceNetwork: [\"10.43.0.0\\/16\"]}"),
		"a binary name":                      filesOf("node: {hostnameOverride: !!binary gGE=}"),
		"an infinite key":                    filesOf(".inf: a\n1e30: b\n"),
		"a large port":                       filesOf("ingress: {ports: {http: 18446744073709551615}}"),
		"keys that are not strings":          filesOf("1: a\n1.5: b\ntrue: c\n2026-11-22: d\nyes: e\nnode: {nodeIP: 192.0.2.9}\n"),
		"a key of null":                      filesOf("~: a\n"),
		"a byte order mark":                  filesOf("\ufeffnode: {nodeIP: 192.0.2.9}"),
		"CRLF":                               filesOf("node:\r\n  nodeIP: 192.0.2.9\r\n"),
		"a tab":                              filesOf("node:\n\tnodeIP: 192.0.2.9"),
		"a directive":                        filesOf("%YAML 1.1\n---\nnode: {nodeIP: 192.0.2.9}\n"),
		"not UTF-8":                          filesOf("node: {hostnameOverride: \"\xff\"}"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, refused := referenceConfig(files)
			got, err := parse(files)
			if (err != nil) != (refused != nil) {
				t.Fatalf("MicroShift: %v; this package: %v", refused, err)
			}
			if err == nil {
				compareConfigs(t, want, got)
			}
		})
	}
}

// withoutNull removes members that are null, because they equal absent ones.
func withoutNull(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			if v[name] = withoutNull(inner); inner == nil {
				delete(v, name)
			}
		}
	case []any:
		for i, inner := range v {
			v[i] = withoutNull(inner)
		}
	}
	return value
}

func FuzzMerge(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"a":{"b":1,"c":[1,2]}}`, `{"a":{"b":null,"c":[3]},"d":{"e":null}}`},
		{`{"a":"b"}`, `{"a":{"b":{"c":null}}}`},
		{`{"a":[{"b":null}]}`, `{"a":[null,{"c":null}],"":{}}`},
		{`{"a":null}`, `{"a":{}}`},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, doc, patch string) {
		var target, change map[string]any
		if json.Unmarshal([]byte(doc), &target) != nil || json.Unmarshal([]byte(patch), &change) != nil || target == nil || change == nil {
			return
		}
		text, err := jsonpatch.MergePatch([]byte(doc), []byte(patch))
		if err != nil {
			t.Fatal(err)
		}
		var want any
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(withoutNull(want), withoutNull(mergePatch(target, change))); diff != "" {
			t.Errorf("(-json-patch +got):\n%s", diff)
		}
	})
}

// FuzzRead: all files are accepted or rejected as MicroShift does, except for
// knownDifference.
func FuzzRead(f *testing.F) {
	f.Add("node: {nodeIP: 192.0.2.9}\n", "ingress: {ports: {http: 8080}, listenAddress: [eth0]}\n")
	f.Add("network: {serviceNetwork: [10.43.0.0/16, fd02::/112]}\n", "# nothing\n")
	f.Add("a: &a [y, 2026-11-22, 0x1]\nb: *a\n", "b: ~\n? 1\n: !!str 2\n")
	f.Add("a: &a {b: 1}\nc: {b: 2, <<: *a}\n", "c: {<<: [*a], b: 1}\n")
	f.Add("a: !!timestamp x\nb: !!bool yes\n", "a: \"\\/\"\nb: !!int 1_0\n? !!binary gA==\n: .inf\n")
	f.Add("ingress: {ports: {HTTP: 8080, http: null}}\n", "ingress: {PORTS: {http: 0o17}}\nnode: [{a: ~}]\n")
	f.Fuzz(func(t *testing.T, first, second string) {
		for _, all := range [][]string{{first}, {first, second}} {
			compareWithReference(t, filesOf(all...))
		}
	})
}

func compareWithReference(t *testing.T, files []file) {
	t.Helper()
	files = slices.DeleteFunc(files, func(f file) bool { return len(bytes.TrimSpace(f.text)) == 0 })
	tree, _, err := mergeFiles(files)
	merged, refused := referenceMerge(files)
	if knownDifference(merged, err) {
		return
	}
	if (err != nil) != (refused != nil) {
		t.Fatalf("MicroShift: %v, %s; this package: %v, %v", refused, merged, err, tree)
	}
	if err != nil || merged == nil {
		return
	}
	ours, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decodeExactly(t, merged), decodeExactly(t, ours)); diff != "" {
		t.Errorf("(-MicroShift +got):\n%s", diff)
	}
	want, refused := referenceConfig(files)
	got, err := parse(files)
	if (err != nil) != (refused != nil) {
		t.Fatalf("MicroShift: %v; this package: %v", refused, err)
	}
	if err == nil {
		compareConfigs(t, want, got)
	}
}

// knownDifference reports whether a difference is intended.
func knownDifference(merged []byte, err error) bool {
	switch {
	case errors.Is(err, errTooLarge):
		return true // our limits are lower to bound the controller's memory
	case errors.Is(err, errDuplicateKey):
		return true // MicroShift's own result is random
	case errors.Is(err, errNotMapping) && len(merged) > 0 && merged[0] != '{':
		return true // MicroShift rejects it one step later
	default:
		return false
	}
}

// decodeExactly decodes JSON and keeps numbers as they are written. It removes null members
// of mappings in lists: they equal absent ones, and json-patch removes some of them.
func decodeExactly(t *testing.T, text []byte) any {
	t.Helper()
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	var value any
	if err := numbers.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return dropNullsInLists(value)
}

func dropNullsInLists(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			v[name] = dropNullsInLists(inner)
		}
	case []any:
		return withoutNull(v)
	}
	return value
}
