// SPDX-License-Identifier: Apache-2.0

package schematest

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	generator "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	module     = "github.com/http01-proxyd/http01-proxyd/"
	apiVersion = "http01-proxyd.github.io/v1alpha1"
)

// Check fails if docs/reference/NAME.schema.json is not the schema of the type T, with
// the comments of the type as descriptions, or if a document does not match it. Update
// writes the file. T is a document of this kind. The packages are the folders of T and
// of its fields' types, relative to the root of the repository, in which the test must run.
func Check[T any](t *testing.T, update bool, name, kind string, packages []string, documents ...[]byte) {
	t.Helper()
	generated := generate(t, reflect.TypeFor[T](), name, kind, packages)
	path := filepath.Join("docs", "reference", name+".schema.json")
	if update {
		if err := os.WriteFile(path, generated, 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), string(generated)); diff != "" {
		t.Errorf("%s is not current, run make docs (-file +types):\n%s", path, diff)
	}
	decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(committed))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(name, decoded); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(documents) == 0 {
		t.Error("no document to validate")
	}
	for _, d := range documents {
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(d))
		if err != nil {
			t.Fatalf("%v in\n%s", err, d)
		}
		if err := schema.Validate(document); err != nil {
			t.Errorf("%v in\n%s", err, d)
		}
	}
}

func generate(t *testing.T, document reflect.Type, name, kind string, packages []string) []byte {
	t.Helper()
	r := generator.Reflector{
		ExpandedStruct: true, BaseSchemaID: "https://github.com/http01-proxyd/http01-proxyd/docs/reference",
		Mapper: func(t reflect.Type) *generator.Schema {
			if t == reflect.TypeFor[netip.Addr]() || t == reflect.TypeFor[netip.AddrPort]() {
				return &generator.Schema{Type: "string"}
			}
			return nil
		},
	}
	// The generator joins the name of the module with the path to the package.
	for _, p := range append(packages, "pkg/report") {
		if err := r.AddGoComments(strings.TrimSuffix(module, "/"), p); err != nil {
			t.Fatal(err)
		}
	}
	s := r.ReflectFromType(document)
	s.ID = generator.ID("https://github.com/http01-proxyd/http01-proxyd/blob/main/docs/reference/" + name + ".schema.json")
	for property, value := range map[string]string{"apiVersion": apiVersion, "kind": kind} {
		p, has := s.Properties.Get(property)
		if !has {
			t.Fatalf("%v has no %s", document, property)
		}
		p.Const = value
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}
