// SPDX-License-Identifier: Apache-2.0

package oc

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/validator"
)

// Reconcile replaces the controllers of the objects. It runs after each change of an
// object by oc, and may read and Put objects.
type Reconcile func(ctx context.Context, o *Objects) error

// Objects are objects of kinds that Cluster does not have. oc applies, gets, patches and
// awaits them; the code of the API server validates what oc writes.
type Objects struct {
	validator *validator.Validator
	reconcile Reconcile

	mu     sync.Mutex
	stored map[string]*unstructured.Unstructured // by key
}

// NewObjects returns the objects of a cluster. oc can write those with a CRD.
func NewObjects(crds [][]byte, reconcile Reconcile) (*Objects, error) {
	v, err := validator.New(crds...)
	if err != nil {
		return nil, err
	}
	return &Objects{validator: v, reconcile: reconcile, stored: map[string]*unstructured.Unstructured{}}, nil
}

// key names an object as oc does, with its namespace.
func key(kind, namespace, name string) string {
	return strings.ToLower(kind) + "/" + namespace + "/" + name
}

// Put stores an object as a controller does. Only Reconcile and the preparation of a test
// call it.
func (s *Objects) Put(o *unstructured.Unstructured) {
	s.stored[key(o.GetKind(), o.GetNamespace(), o.GetName())] = o
}

// Get returns an object, or nil. Only Reconcile calls it.
func (s *Objects) Get(kind, namespace, name string) *unstructured.Unstructured {
	return s.stored[key(kind, namespace, name)]
}

// Delete deletes an object. Only Reconcile calls it.
func (s *Objects) Delete(kind, namespace, name string) {
	delete(s.stored, key(kind, namespace, name))
}

// All returns the objects of a kind. Only Reconcile calls it.
func (s *Objects) All(kind string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, o := range s.stored {
		if o.GetKind() == kind {
			all = append(all, o)
		}
	}
	return all
}

// objectFlags are the flags of the documented commands.
type objectFlags struct {
	file, output, namespace, condition, kind, patch, subresource string

	rest []string // arguments without flags
}

func parseObjectFlags(verb string, args []string) (f objectFlags, err error) {
	flags := flag.NewFlagSet(verb, flag.ContinueOnError)
	flags.StringVar(&f.output, "o", "", "")
	flags.StringVar(&f.namespace, "namespace", "", "")
	switch verb {
	case "apply":
		flags.StringVar(&f.file, "f", "", "")
	case "wait":
		flags.StringVar(&f.condition, "for", "", "")
		flags.Duration("timeout", 30*time.Second, "")
	case "patch":
		flags.StringVar(&f.kind, "type", "strategic", "")
		flags.StringVar(&f.patch, "patch", "", "")
		flags.StringVar(&f.subresource, "subresource", "", "")
	}
	f.rest, err = parse(flags, args)
	return f, err
}

// Run runs oc like Cluster.Run. It leaves commands without one of these objects to next.
func (s *Objects) Run(ctx context.Context, next Handler, dir string, args ...string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(args) == 0 {
		return next(ctx, dir, args...)
	}
	verb := args[0]
	f, err := parseObjectFlags(verb, args[1:])
	if err != nil {
		return next(ctx, dir, args...)
	}
	var out string
	if verb == "apply" {
		objects, readErr := read(dir, f.file)
		if readErr != nil || !s.validates(objects) {
			return next(ctx, dir, args...)
		}
		out, err = s.apply(ctx, objects)
	} else {
		o, of := s.find(f)
		if o == nil {
			return next(ctx, dir, args...)
		}
		switch verb {
		case "get":
			out, err = printObject(o.Object, f.output)
		case "wait":
			out, err = of+" condition met\n", await(o, f.condition)
		case "patch":
			out, err = of+" patched\n", s.patch(ctx, o, f)
		default:
			return next(ctx, dir, args...)
		}
	}
	if err != nil {
		return "", fmt.Errorf("oc %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// find returns the object of KIND NAME or KIND/NAME.
func (s *Objects) find(f objectFlags) (*unstructured.Unstructured, string) {
	of := strings.Join(f.rest, "/")
	kind, name, found := strings.Cut(of, "/")
	if !found {
		return nil, ""
	}
	return s.stored[key(kind, f.namespace, name)], of
}

func (s *Objects) validates(objects map[object][]byte) bool {
	for _, text := range objects {
		var o unstructured.Unstructured
		if yaml.Unmarshal(text, &o.Object) != nil || !s.validator.Has(o.GroupVersionKind()) {
			return false
		}
	}
	return len(objects) > 0
}

func (s *Objects) apply(ctx context.Context, objects map[object][]byte) (string, error) {
	var out strings.Builder
	for o, text := range objects {
		if err := s.validator.Object(text); err != nil {
			return "", err
		}
		stored, _, err := s.validator.Create(text)
		if err != nil {
			return "", err
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(stored, &u.Object); err != nil {
			return "", fmt.Errorf("read the stored object: %w", err)
		}
		s.Put(u)
		fmt.Fprintf(&out, "%s/%s created\n", strings.ToLower(o.Kind), o.Metadata.Name)
	}
	return out.String(), s.reconcile(ctx, s)
}

// await checks the condition once: it is met when the previous command has returned, or
// never.
func await(o *unstructured.Unstructured, condition string) error {
	met := errors.New("timed out waiting for the condition")
	if expression, isPath := strings.CutPrefix(condition, "jsonpath="); isPath {
		at := strings.LastIndex(expression, "}=") + 1
		got, err := printObject(o.Object, "jsonpath="+expression[:at])
		if err == nil && got != strings.TrimPrefix(expression[at:], "=") {
			err = met
		}
		return err
	}
	name, want, given := strings.Cut(strings.TrimPrefix(condition, "condition="), "=")
	if !given {
		want = "True"
	}
	conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err == nil && !slices.ContainsFunc(conditions, func(c any) bool {
		one, _ := c.(map[string]any)
		return one["type"] == name && one["status"] == want
	}) {
		err = met
	}
	return err //nolint:wrapcheck // Run adds the command
}

// patch patches an object, or its status only.
func (s *Objects) patch(ctx context.Context, o *unstructured.Unstructured, f objectFlags) error {
	before, err := json.Marshal(o.Object)
	if err != nil {
		return fmt.Errorf("encode the object: %w", err)
	}
	after := before
	switch f.kind {
	case "merge":
		after, err = jsonpatch.MergePatch(before, []byte(f.patch))
	case "json":
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch([]byte(f.patch)); err == nil {
			after, err = operations.Apply(before)
		}
	default:
		err = fmt.Errorf("no document has a patch of type %s", f.kind)
	}
	if err != nil {
		return err //nolint:wrapcheck // Run adds the command
	}
	if err := s.validator.Update(before, after); err != nil {
		return err
	}
	patched, kept := &unstructured.Unstructured{}, o.DeepCopy()
	if err := patched.UnmarshalJSON(after); err != nil {
		return fmt.Errorf("decode the patched object: %w", err)
	}
	// A status is changed by its subresource only, and by nothing else.
	if f.subresource == "status" {
		kept.Object["status"] = patched.Object["status"]
		patched = kept
	} else if status, found := kept.Object["status"]; found {
		patched.Object["status"] = status
	}
	s.Put(patched)
	return s.reconcile(ctx, s)
}

// printObject prints an object as -o does.
func printObject(o map[string]any, format string) (string, error) {
	expression, isPath := strings.CutPrefix(format, "jsonpath=")
	if format == "yaml" {
		text, err := yaml.Marshal(o)
		return string(text), err //nolint:wrapcheck // Run adds the command
	}
	if !isPath {
		return "", fmt.Errorf("the documentation has no format %q", format)
	}
	path := jsonpath.New("get").AllowMissingKeys(true)
	if err := path.Parse(expression); err != nil {
		return "", fmt.Errorf("%s: %w", expression, err)
	}
	var got strings.Builder
	err := path.Execute(&got, o)
	return got.String(), err //nolint:wrapcheck // Run adds the command
}
