// SPDX-License-Identifier: Apache-2.0

package stabletest

import (
	"encoding"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	removed = "%s: %q is gone, and users depend on it: keep it, and announce its end under Deprecated in CHANGELOG.md. " +
		"docs/reference/compatibility.md states for how long. After that, or before 1.0, run this test with -update"
	added = "%s: %q is new, and from its release on it stays: add it to CHANGELOG.md and to the documentation, " +
		"and run this test with -update"
)

// Check fails if docs/reference/stable/NAME.txt below root does not contain these lines, in any order.
// Update writes the file.
func Check(t *testing.T, update bool, root, name string, lines []string) {
	t.Helper()
	lines = slices.Compact(slices.Sorted(slices.Values(lines)))
	path := filepath.Join(root, "docs", "reference", "stable", name+".txt")
	if update {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range compare(strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), lines) {
		t.Errorf(change.format, name, change.line)
	}
}

type change struct{ format, line string }

// compare returns the lines that were removed, and then the added ones.
func compare(before, after []string) (changes []change) {
	for _, line := range before {
		if !slices.Contains(after, line) {
			changes = append(changes, change{removed, line})
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			changes = append(changes, change{added, line})
		}
	}
	return changes
}

// Fields returns the fields of a document's type in JSON, such as "Status vips[].state string". A field
// that can be absent ends with "optional".
func Fields(kind string, document reflect.Type) []string { return fields(kind+" ", "", document) }

func fields(at, suffix string, t reflect.Type) (lines []string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case isText(t):
		return []string{at + " string" + suffix}
	case t.Kind() == reflect.Slice:
		return fields(at+"[]", suffix, t.Elem())
	case t.Kind() == reflect.Map:
		return fields(at+".*", suffix, t.Elem())
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			lines = append(lines, ofField(at, t.Field(i))...)
		}
		return lines
	}
	return []string{at + " " + typeName(t) + suffix}
}

// ofField returns the lines of a field of a struct. An embedded struct has no name of its own.
func ofField(at string, f reflect.StructField) []string {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case f.Anonymous && name == "":
		return fields(at, "", f.Type)
	case name == "-" || !f.IsExported():
		return nil
	case name == "":
		name = f.Name
	}
	if !strings.HasSuffix(at, " ") {
		name = "." + name
	}
	suffix := ""
	if strings.Contains(options, "omit") {
		suffix = " optional"
	}
	return fields(at+name, suffix, f.Type)
}

func isText(t reflect.Type) bool {
	for _, in := range []reflect.Type{reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[json.Marshaler]()} {
		if t.Implements(in) {
			return true
		}
	}
	return t.Kind() == reflect.String
}

func typeName(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.Interface:
		return "any"
	default:
		return "number"
	}
}

// Commands returns the commands and the flags of a program, such as "http01-proxyd check --only strings". A
// path follows if it is the default. Hidden commands are not for users.
func Commands(c *cobra.Command) []string {
	lines := []string{c.CommandPath()}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		line := c.CommandPath() + " --" + f.Name + " " + f.Value.Type()
		if f.Shorthand != "" {
			line += " -" + f.Shorthand
		}
		if strings.HasPrefix(f.DefValue, "/") {
			line += " " + f.DefValue
		}
		lines = append(lines, line)
	})
	for _, one := range c.Commands() {
		if !one.Hidden {
			lines = append(lines, Commands(one)...)
		}
	}
	return lines
}
