// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// objects contains API objects, which test/suites/apis checks.
const objects = "api.md"

// examples returns the fenced YAML blocks of all documents with configurations.
func examples(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	for _, file := range append(files, "../../README.md") {
		if filepath.Base(file) == objects {
			continue
		}
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

// TestREADMEShowsTheDefaults: the first example of README contains every default.
func TestREADMEShowsTheDefaults(t *testing.T) {
	t.Parallel()
	first := ""
	for name, text := range examples(t) {
		if strings.HasPrefix(text, "mode: DefaultDeployment\n") && strings.HasPrefix(name, "README.md") {
			first = text
		}
	}
	got, err := config.Parse("README.md", []byte(first))
	if err != nil {
		t.Fatal(err)
	}
	got.Upstream.ExplicitPorts = config.ExplicitPorts{} // the example sets them
	if diff := cmp.Diff(config.Default(), got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.AddrPort{})); first == "" || diff != "" {
		t.Errorf("(-default +README):\n%s", diff)
	}
}
