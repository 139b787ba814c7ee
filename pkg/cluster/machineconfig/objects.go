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

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// maxMessage is the limit of a message of the YAML library: a file of another kind has a problem
// in every line.
const maxMessage = 1 << 10

// ReadObject is an object of the cluster. The API server has validated it: only what is read
// from it is decoded.
type ReadObject struct {
	File, Kind, Name string

	InList  bool
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
// versions. The error contains the first problem of each file. remediation names the source of
// the files.
func ReadObjects(files []Input, kinds map[string]string, remediation string) (read ObjectFiles, err error) {
	problems := make([]error, len(files))
	for i, in := range files {
		problems[i] = read.addFile(in, kinds, remediation)
	}
	return read, errors.Join(problems...)
}

func (f *ObjectFiles) addFile(in Input, kinds map[string]string, remediation string) error {
	text, err := toJSON(in, remediation)
	if err != nil {
		return err
	}
	whole := ReadObject{File: in.Name, text: text}
	var header objectHeader
	if err := whole.Load(&header); err != nil {
		return err
	}
	if !strings.HasSuffix(header.Kind, "List") {
		return f.add(whole, kinds, remediation)
	}
	if len(header.Items) == 0 {
		f.EmptyLists++
	}
	for i, item := range header.Items {
		o := ReadObject{File: in.Name, InList: true, path: fmt.Sprintf("items[%d]", i), text: item}
		if err := f.add(o, kinds, remediation); err != nil {
			return err
		}
	}
	return nil
}

// add adds an object of one of the kinds.
func (f *ObjectFiles) add(o ReadObject, kinds map[string]string, remediation string) error {
	var header objectHeader
	if err := o.Load(&header); err != nil {
		return err
	}
	o.Kind, o.Name, o.Deleted = header.Kind, header.Metadata.Name, header.Metadata.DeletionTimestamp != nil
	if version, accepted := kinds[o.Kind]; !accepted || version != header.APIVersion {
		want := strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
		message := fmt.Sprintf("kind %.100q of %.100q is not accepted here: want %s", o.Kind, header.APIVersion, want)
		return o.problem("", message, remediation)
	}
	f.Objects = append(f.Objects, o)
	return nil
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
	case errors.As(err, &wrong) && wrong.Field == "" && o.path == "":
		return o.problem("", "a "+wrong.Value+", not an object of a cluster", "export the object again, or correct the file")
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
	before := 0 // lines
	for _, document := range documentMark.Split(string(in.Text), -1) {
		text, err := yaml.YAMLToJSONStrict([]byte(document))
		switch {
		case err != nil:
			return nil, syntaxProblem(in.Name, document, before, err, remediation)
		case bytes.Equal(text, []byte("null")):
		case found != nil:
			return nil, problem(in.Name, "a second document", "keep one object or one List: "+remediation)
		default:
			found = text
		}
		before += strings.Count(document, "\n")
	}
	if found == nil {
		return nil, problem(in.Name, "contains no object", remediation)
	}
	return found, nil
}

// lineForm matches the line in an error of the YAML library.
var lineForm = regexp.MustCompile(`line (\d+):`)

// syntaxProblem returns an error of the YAML library in a document with so many lines before it. The
// name of an anchor is omitted: the administrator may have given another file by mistake, with secrets
// in it.
func syntaxProblem(file, document string, before int, err error, remediation string) error {
	at, _ := strconv.Atoi(append(lineForm.FindStringSubmatch(err.Error()), "", "")[1])
	if line, column := config.FindTab([]byte(document), at); at > 0 && line > 0 {
		return config.Problem{
			Where: file, Line: before + line, Column: column,
			Message: "not valid YAML: a tab in the indentation", Remediation: "indent with spaces",
		}
	}
	message, _, _ := strings.Cut(strings.ReplaceAll(err.Error(), "yaml: ", ""), " '")
	return problem(file, "not valid YAML: "+printable.Truncate(message, maxMessage), remediation)
}
