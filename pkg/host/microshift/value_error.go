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

// valueError is about the value of a key.
type valueError struct {
	key  string // with those above it: ingress.ports.http
	text string // what is said of it
}

func (m *valueError) Error() string { return m.key + " " + m.text }

// invalidValue is a mistake of a key that is something else than it may be.
func invalidValue(key, format string, args ...any) error {
	return &valueError{key, "is " + fmt.Sprintf(format, args...)}
}

// describeTypeError says in an admin's words that a value is of another kind than it is to be.
func describeTypeError(err error) error {
	var e *json.UnmarshalTypeError
	if !errors.As(err, &e) || e.Field == "" {
		return err
	}
	is := map[string]string{"string": "a text", "number": "a number", "bool": "true or false", "array": "a list", "object": "a mapping"}[e.Value]
	if number, found := strings.CutPrefix(e.Value, "number "); found {
		is = number
	}
	if is == "" {
		is = e.Value
	}
	kind := e.Type.Kind()
	if kind != reflect.Slice && keyIsList(e.Field) {
		may := map[reflect.Kind]string{reflect.String: "texts", reflect.Struct: "mappings"}[kind]
		return &valueError{e.Field, fmt.Sprintf("has an entry that is %s, and its entries are to be %s", is, may)}
	}
	may := map[reflect.Kind]string{reflect.Int: "a whole number", reflect.String: "a text", reflect.Slice: "a list", reflect.Struct: "a mapping"}[kind]
	return invalidValue(e.Field, "%s, and is to be %s", is, may)
}

// keyIsList reports whether a key of wire is one of a list.
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

// fieldType is the type of what a key of a mapping has; nil: it has no such key.
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

// addLocations adds to a problem, or to each of several, where it is to be corrected.
func addLocations(files []file, err error) error {
	problems := []error{err}
	if several, is := err.(interface{ Unwrap() []error }); is {
		problems = several.Unwrap()
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

// findKey finds the last file that has a key, and its line there; "" where none has it
// as it stands: aliases and merge keys are not followed.
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

// keyLine is the line of a key below a node, in any case; that of the list where the
// key is in one's elements, and 0 where there is no such key.
func keyLine(n *yaml.Node, path []string) int {
	if n.Kind == yaml.SequenceNode && len(path) > 0 {
		return n.Line
	}
	if n.Kind != yaml.MappingNode {
		return 0
	}
	// Of two keys that are the same the last one counts.
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
