// SPDX-License-Identifier: Apache-2.0

package sbom_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas loads CycloneDX's own schemas, which come with its Go module.
type schemas struct{ dir string }

// Load finds the file by the last element of a schema's address.
func (s schemas) Load(url string) (any, error) {
	file, err := os.Open(filepath.Join(s.dir, path.Base(url)))
	if errors.Is(err, os.ErrNotExist) && strings.HasPrefix(path.Base(url), "jsf-") {
		// Signatures: the module has the file under a slightly different name.
		file, err = os.Open(filepath.Join(s.dir, strings.Replace(path.Base(url), ".schema.json", ".schemax.json", 1)))
	}
	if err != nil {
		return nil, fmt.Errorf("load the schema %s: %w", url, err)
	}
	defer file.Close()
	return jsonschema.UnmarshalJSON(file)
}

// validate checks a bill against the schema that it names.
func validate(t *testing.T, text []byte) {
	t.Helper()
	module := command(t, ".", nil, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go")
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(schemas{filepath.Join(strings.TrimSpace(module), "schema")})
	compiler.AssertFormat()
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	must(t, err)
	bill, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	must(t, err)
	if err := schema.Validate(bill); err != nil {
		t.Errorf("the bill breaks CycloneDX's schema: %v", err)
	}
	// The judge does refuse.
	bill.(map[string]any)["version"] = "one"
	if schema.Validate(bill) == nil {
		t.Error("the schema accepts a bill whose version is a word")
	}
}
