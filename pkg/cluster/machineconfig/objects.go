// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// MaxList is the limit of a List. "oc get machineconfig" without a selector prints each
// configuration that the cluster has rendered, with several hundred KiB.
const MaxList = 64 << 20

// ObjectKind is a kind of objects that ReadObjects accepts.
type ObjectKind struct {
	APIVersion, Kind string
	// Fields lists the known fields by the path of their parent, as far as they are read.
	// Fields below other parents are not checked.
	Fields map[string][]string
}

// ReadObject is an object of a file.
type ReadObject struct {
	File, Kind, Name string
	InList           int // 1 for the first List that was read; 0: not in a List
	node             *yaml.Node
}

// Load decodes the object. The error has the position of the value.
func (o ReadObject) Load(into any) error {
	err := o.node.Load(into)
	var several *yaml.LoadErrors
	if err == nil || !errors.As(err, &several) {
		return err //nolint:wrapcheck // not an error of a value
	}
	var problems []error
	for _, e := range several.Errors[:min(len(several.Errors), maxProblems)] {
		problems = append(problems, problemAt(o.File, &yaml.Node{Line: e.Mark.Line, Column: e.Mark.Column}, o.Kind+": "+e.Message, "export the object again: the cluster has no object like this"))
	}
	return errors.Join(problems...)
}

// ObjectFiles is the result of ReadObjects.
type ObjectFiles struct {
	Objects    []ReadObject
	EmptyLists int      // Lists without objects
	Warnings   []string // unknown fields that were left out
}

// ReadObjects reads objects of the cluster as "oc get -o yaml" and "-o json" print them:
// each file has one object, or one List. The error contains all problems. strict rejects
// unknown fields. remediation names the source of the files.
func ReadObjects(files []Input, kinds []ObjectKind, strict bool, remediation string) (ObjectFiles, error) {
	r := clusterReader{strict: strict, limit: MaxList}
	var read ObjectFiles
	lists := 0
	for _, in := range files {
		root := r.readDocument(in, remediation)
		if root == nil {
			continue
		}
		items, list := []*yaml.Node{root}, 0
		switch isList := strings.HasSuffix(stringValue(member(root, "kind")), "List"); {
		case isList:
			lists++
			items, list = r.listItems(in.Name, root, remediation), lists
			if len(items) == 0 {
				read.EmptyLists++
			}
		case len(in.Text) > MaxObject:
			r.reject(in.Name, fmt.Sprintf("longer than %d bytes", MaxObject), remediation)
			continue
		}
		for _, item := range items {
			if o, ok := r.readKnown(in.Name, item, kinds, remediation); ok {
				o.InList = list
				read.Objects = append(read.Objects, o)
			}
		}
	}
	for _, w := range r.warnings {
		read.Warnings = append(read.Warnings, w.String())
	}
	return read, r.joinedProblems()
}

// readKnown reads an object of one of the kinds.
func (r *clusterReader) readKnown(file string, n *yaml.Node, kinds []ObjectKind, remediation string) (ReadObject, bool) {
	if n.Kind != yaml.MappingNode {
		r.rejectAt(file, n, "not an object", remediation)
		return ReadObject{}, false
	}
	kind, apiVersion := member(n, "kind"), member(n, "apiVersion")
	i := slices.IndexFunc(kinds, func(k ObjectKind) bool {
		return k.Kind == stringValue(kind) && k.APIVersion == stringValue(apiVersion)
	})
	if i < 0 {
		place := cmp.Or(kind, apiVersion, n)
		names := make([]string, len(kinds))
		for i, k := range kinds {
			names[i] = k.Kind
		}
		r.rejectAt(file, place, fmt.Sprintf("kind %s of %s is not accepted here: want %s", quotedValue(kind), quotedValue(apiVersion), strings.Join(names, ", ")), remediation)
		return ReadObject{}, false
	}
	name := nodeAt(n, []string{"metadata", "name"})
	if stringValue(name) == "" {
		r.rejectAt(file, n, "metadata.name: Required value", remediation)
		return ReadObject{}, false
	}
	walkFields(n, kinds[i].Fields, func(key *yaml.Node, at, path string, known []string) {
		meant := suggestField(kinds[i].Kind, path, key.Value, known)
		if !r.strict {
			r.recordUnknownField(file, key, at, meant)
			return
		}
		r.rejectAt(file, key, fmt.Sprintf("unknown field %.200q", at), cmp.Or(meant, "remove it, or leave out --strict to ignore it"))
	})
	return ReadObject{File: file, Kind: kinds[i].Kind, Name: name.Value, node: n}, true
}
