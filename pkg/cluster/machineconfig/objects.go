// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// Limits of files with objects of the cluster. Real objects have a few KiB. "oc get
// machineconfig" without a selector prints each configuration that the cluster has
// rendered, with several hundred KiB.
const (
	MaxObject = 1 << 20
	MaxList   = 64 << 20
	// A file of another kind has a problem in every line.
	maxProblems = 50
)

// ReadObject is an object of the cluster. The API server has validated it: only what is read
// from it is decoded.
type ReadObject struct {
	File, Kind, Name string

	InList  int  // 1 for the first List that was read; 0: not in a List
	Deleted bool // it is being deleted
	path    string
	text    []byte
}

// objectHeader has the fields that every object or List has.
type objectHeader struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name              string  `json:"name"`
		DeletionTimestamp *string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// ObjectFiles is the result of ReadObjects.
type ObjectFiles struct {
	Objects    []ReadObject
	EmptyLists int // Lists without objects
}

// ReadObjects reads objects of the cluster as "oc get -o yaml" and "-o json" print them:
// each file has one object, or one List. kinds maps the kinds that are accepted to their
// versions. The error contains all problems. remediation names the source of the files.
func ReadObjects(files []Input, kinds map[string]string, remediation string) (ObjectFiles, error) {
	var read ObjectFiles
	var problems []error
	lists := 0
	for _, in := range files {
		text, err := toJSON(in, remediation)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		whole := ReadObject{File: in.Name, text: text}
		items, err := read.add(whole, kinds, remediation)
		problems = append(problems, err)
		if items == nil {
			continue
		}
		lists++
		if len(items) == 0 {
			read.EmptyLists++
		}
		for i, item := range items {
			_, err := read.add(ReadObject{File: in.Name, InList: lists, path: fmt.Sprintf("items[%d]", i), text: item}, kinds,
				remediation)
			problems = append(problems, err)
		}
	}
	return read, joinProblems(problems)
}

// add adds an object of one of the kinds, or returns the items of a List.
func (f *ObjectFiles) add(o ReadObject, kinds map[string]string, remediation string) ([]json.RawMessage, error) {
	var header objectHeader
	if err := o.Load(&header); err != nil {
		return nil, err
	}
	if o.InList == 0 && strings.HasSuffix(header.Kind, "List") {
		return append([]json.RawMessage{}, header.Items...), nil
	}
	o.Kind, o.Name, o.Deleted = header.Kind, header.Metadata.Name, header.Metadata.DeletionTimestamp != nil
	if version, accepted := kinds[o.Kind]; !accepted || version != header.APIVersion {
		want := strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
		message := fmt.Sprintf("kind %.100q of %.100q is not accepted here: want %s", o.Kind, header.APIVersion, want)
		return nil, o.problem("", message, remediation)
	}
	f.Objects = append(f.Objects, o)
	return nil, nil
}

// joinProblems returns the first problems.
func joinProblems(problems []error) error {
	problems = slices.DeleteFunc(problems, func(err error) bool { return err == nil })
	if more := len(problems) - maxProblems; more > 0 {
		problems = append(problems[:maxProblems], fmt.Errorf("and %d more", more))
	}
	return errors.Join(problems...)
}

// problem returns a problem of the object, or of a field of it.
func (o ReadObject) problem(field, message, remediation string) error {
	path := strings.Trim(o.path+"."+field, ".")
	if path != "" {
		message = path + ": " + message
	}
	return problem(o.File, message, remediation)
}

// Load decodes the object. Fields that into does not have are ignored. Wrong types and
// fields that appear twice are problems with the path of the field.
func (o ReadObject) Load(into any) error { return o.load(into, kjson.DisallowDuplicateFields) }

// loadStrict also rejects unknown fields, which would be ignored silently. It is for the
// API of this project.
func (o ReadObject) loadStrict(into any) error {
	return o.load(into, kjson.DisallowDuplicateFields, kjson.DisallowUnknownFields)
}

func (o ReadObject) load(into any, options ...kjson.StrictOption) error {
	rejected, err := kjson.UnmarshalStrict(o.text, into, options...)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return o.problem(wrong.Field, "wrong type: "+wrong.Value, "export the object again, or correct the file")
	case err != nil:
		return o.problem("", "cannot be read: "+err.Error(), "export the object again")
	}
	problems := make([]error, len(rejected))
	for i, err := range rejected {
		problems[i] = o.problem("", err.Error(), "remove it")
	}
	return errors.Join(problems...)
}

// field returns a part of the object, which was decoded from it.
func (o ReadObject) field(path string, text []byte) ReadObject {
	o.path, o.text = strings.Trim(o.path+"."+path, "."), text
	return o
}

// documentMark begins or ends a document of a YAML stream.
var documentMark = regexp.MustCompile(`(?m)^(?:---(?:[ \t]|\r?$)|\.\.\.\r?$)`)

// toJSON returns the one document of a file as oc reads it. Empty documents are ignored:
// some tools write "---" around each document.
func toJSON(in Input, remediation string) (found []byte, err error) {
	if json.Valid(in.Text) {
		return in.Text, nil
	}
	for _, document := range documentMark.Split(string(in.Text), -1) {
		text, err := yaml.YAMLToJSONStrict([]byte(document))
		switch {
		case err != nil:
			return nil, syntaxProblem(in.Name, err, remediation)
		case bytes.Equal(text, []byte("null")):
		case found != nil:
			return nil, problem(in.Name, "a second document", "keep one object or one List: "+remediation)
		default:
			found = text
		}
	}
	if found == nil {
		return nil, problem(in.Name, "contains no object", remediation)
	}
	return found, nil
}

// syntaxProblem returns errors of the YAML library with their lines, if it has put them
// into the text. The name of an anchor is omitted: the administrator may have given another
// file by mistake, with secrets in it.
func syntaxProblem(file string, err error, remediation string) error {
	lines := regexp.MustCompile(`line (\d+): (.+)`).FindAllStringSubmatch(err.Error(), -1)
	if lines == nil {
		message, _, _ := strings.Cut(err.Error(), " '")
		return problem(file, strings.Replace(message, "yaml: ", "not valid YAML: ", 1), remediation)
	}
	var problems []error
	for _, found := range lines {
		line, _ := strconv.Atoi(found[1])
		problems = append(problems, config.Problem{
			Where: file, Line: line, Message: "not valid YAML: " + found[2], Remediation: remediation,
		})
	}
	return joinProblems(problems)
}
