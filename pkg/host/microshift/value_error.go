// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

type valueError struct {
	key  string // full key: ingress.ports.http
	text string // follows the key in the message
}

func (m *valueError) Error() string { return m.key + " " + m.text }

func invalidValue(key, format string, args ...any) error {
	return &valueError{key, "is " + fmt.Sprintf(format, args...)}
}

// describeTypeError rewrites a JSON type error in terms of YAML.
func describeTypeError(err error) error {
	var e *json.UnmarshalTypeError
	if !errors.As(err, &e) || e.Field == "" {
		return err
	}
	actual := map[string]string{"string": "a string", "number": "a number", "bool": "a boolean", "array": "a list", "object": "a mapping"}[e.Value]
	if number, found := strings.CutPrefix(e.Value, "number "); found {
		actual = number
	}
	if actual == "" {
		actual = e.Value
	}
	kind := e.Type.Kind()
	if kind != reflect.Slice && keyIsList(e.Field) {
		expected := map[reflect.Kind]string{reflect.String: "strings", reflect.Struct: "mappings"}[kind]
		return &valueError{e.Field, fmt.Sprintf("has an entry that is %s; entries must be %s", actual, expected)}
	}
	expected := map[reflect.Kind]string{reflect.Int: "an integer", reflect.String: "a string", reflect.Slice: "a list", reflect.Struct: "a mapping"}[kind]
	return invalidValue(e.Field, "%s; it must be %s", actual, expected)
}

// keyIsList reports whether the value of a key of rawConfig is a list.
func keyIsList(key string) bool {
	t := reflect.TypeFor[rawConfig]()
	for name := range strings.SplitSeq(key, ".") {
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t = fieldType(t, name); t == nil {
			return false
		}
	}
	return t.Kind() == reflect.Slice
}

// fieldType returns the type of a mapping's key, or nil if there is no such key.
func fieldType(mapping reflect.Type, name string) reflect.Type {
	if mapping.Kind() != reflect.Struct {
		return nil
	}
	for i := range mapping.NumField() {
		if f := mapping.Field(i); f.Tag.Get("json") == name {
			return f.Type
		}
	}
	return nil
}

// addLocations adds the location to an error, or to each of several joined errors.
func addLocations(files []file, err error) error {
	problems := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		problems = joined.Unwrap()
	}
	texts := make([]string, len(problems))
	for i, err := range problems {
		place := strings.Join(filePaths(files), " or ")
		var m *valueError
		if errors.As(err, &m) {
			if at := findKey(files, m.key); at != "" {
				place = at
			}
		}
		texts[i] = fmt.Sprintf("%v: correct it in %s", err, place)
	}
	return errors.New(strings.Join(texts, "; "))
}

func filePaths(files []file) []string {
	all := make([]string, len(files))
	for i, f := range files {
		all[i] = f.path
	}
	return all
}

// findKey returns the last file that contains a key, with the key's line, or "". It does not
// follow aliases and merge keys.
func findKey(files []file, key string) string {
	for _, f := range slices.Backward(files) {
		var document yaml.Node
		if yaml.Unmarshal(f.text, &document) != nil || len(document.Content) == 0 {
			continue
		}
		if line := keyLine(document.Content[0], strings.Split(key, ".")); line > 0 {
			return fmt.Sprintf("%s, line %d", f.path, line)
		}
	}
	return ""
}

// keyLine returns the line of a key below a node, in any case, or 0 if there is no such key.
// For a key inside an element of a list it returns the line of the list.
func keyLine(n *yaml.Node, path []string) int {
	if n.Kind == yaml.SequenceNode && len(path) > 0 {
		return n.Line
	}
	if n.Kind != yaml.MappingNode {
		return 0
	}
	// Of two equal keys the last one applies.
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		name, value := n.Content[i], n.Content[i+1]
		switch {
		case !strings.EqualFold(name.Value, path[0]):
		case len(path) == 1:
			return name.Line
		default:
			return keyLine(value, path[1:])
		}
	}
	return 0
}
