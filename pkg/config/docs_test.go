// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

const (
	documents = "../../docs"
	objects   = documents + "/reference/api.md" // API objects, which test/suites/apis checks
)

// examples returns the fenced YAML blocks of all documents with configurations.
func examples(t *testing.T) map[string]string {
	t.Helper()
	files := []string{"../../README.md"}
	err := filepath.WalkDir(documents, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" && path != objects {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range block.FindAllSubmatchIndex(text, -1) {
			line := strings.Count(string(text[:at[2]]), "\n") + 1
			found[fmt.Sprintf("%s:%d", filepath.Base(file), line)] = string(text[at[2]:at[3]])
		}
	}
	return found
}

func TestDocumentedConfigurationsAreAccepted(t *testing.T) {
	t.Parallel()
	found := examples(t)
	if len(found) == 0 {
		t.Fatal("no example found")
	}
	for name, text := range found {
		if _, err := config.Parse(name, []byte(text)); err != nil {
			t.Error(err)
		}
	}
}

// reference is the document of all keys.
const reference = "configuration.md"

// referenceExamples returns the example with the defaults, and the others.
func referenceExamples(t *testing.T) (defaults string, others []string) {
	t.Helper()
	for name, text := range examples(t) {
		switch {
		case !strings.HasPrefix(name, reference+":"):
		case strings.HasPrefix(text, "mode: DefaultDeployment\n"):
			defaults = text
		default:
			others = append(others, text)
		}
	}
	return defaults, others
}

// TestReferenceShowsTheDefaults: one example of the reference contains every default.
func TestReferenceShowsTheDefaults(t *testing.T) {
	t.Parallel()
	first, _ := referenceExamples(t)
	got, err := config.Parse(reference, []byte(first))
	if err != nil {
		t.Fatal(err)
	}
	got.Upstream.ExplicitPorts = config.ExplicitPorts{} // the example sets them
	if diff := cmp.Diff(config.Default(), got, cmpopts.EquateEmpty(),
		cmpopts.EquateComparable(netip.AddrPort{})); first == "" || diff != "" {
		t.Errorf("(-default +reference):\n%s", diff)
	}
}

// TestReferenceExplainsEveryKey: the reference has an entry with the default, and an example, for each
// key. The example with the defaults contains all keys except the one that has no default.
func TestReferenceExplainsEveryKey(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(documents + "/" + reference)
	if err != nil {
		t.Fatal(err)
	}
	defaults, others := referenceExamples(t)
	shown := map[string]bool{}
	for _, example := range others {
		for _, key := range keys(t, example) {
			shown[key] = true
		}
	}
	all := acceptedKeys()
	withDefault := slices.DeleteFunc(slices.Clone(all),
		func(key string) bool { return key == "customDeployment.internalPort" })
	less := func(a, b string) bool { return a < b }
	if diff := cmp.Diff(withDefault, keys(t, defaults), cmpopts.SortSlices(less)); diff != "" {
		t.Errorf("keys of the example with the defaults (-accepted +%s):\n%s", reference, diff)
	}
	for _, key := range all {
		if !shown[key] {
			t.Errorf("%s has no example for %s", reference, key)
		}
		_, last, _ := strings.Cut(key, ".")
		row := regexp.MustCompile("(?m)^- [^:]*`(?:" + regexp.QuoteMeta(key) + "|\\." + regexp.QuoteMeta(last) + ")`[^:]*?" +
			"(?: \\(default `(.*?)`\\))?: ")
		entry := row.FindSubmatch(text)
		if entry == nil {
			t.Errorf("%s has no entry for %s", reference, key)
			continue
		}
		var value any
		if err := yaml.Unmarshal(entry[1], &value); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(values(t, defaults)[key], value); diff != "" {
			t.Errorf("default in the entry for %s (-example +entry):\n%s", key, diff)
		}
	}
	if len(all) < 25 {
		t.Errorf("%d keys found, want at least 25", len(all))
	}
}

// acceptedKeys returns the paths of all values of a configuration. The error for an unknown key
// lists the keys of its section.
func acceptedKeys() []string {
	list := regexp.MustCompile(`unknown key "no-key" in .*: use one of (.*)`)
	accepted := func(text string) []string {
		_, err := config.Parse(reference, []byte(text))
		if m := list.FindStringSubmatch(fmt.Sprint(err)); m != nil {
			return strings.Split(m[1], ", ")
		}
		return nil
	}
	var all []string
	for _, key := range accepted("no-key: x") {
		section := accepted(key + ": {no-key: x}")
		if section == nil {
			all = append(all, key)
		}
		for _, below := range section {
			all = append(all, key+"."+below)
		}
	}
	return all
}

// keys returns the paths of the values of a YAML document.
func keys(t *testing.T, text string) []string {
	t.Helper()
	return slices.Collect(maps.Keys(values(t, text)))
}

// values returns the values of a YAML document by their paths.
func values(t *testing.T, text string) map[string]any {
	t.Helper()
	var document map[string]any
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]any)
	for key, value := range document {
		section, nested := value.(map[string]any)
		if !nested {
			all[key] = value
		}
		for below, value := range section {
			all[key+"."+below] = value
		}
	}
	return all
}
