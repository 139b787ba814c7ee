// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	operatorv1alpha1 "github.com/http01-proxyd/http01-proxyd/pkg/apis/operator/v1alpha1"
)

// Limits of a cluster object. Real objects have a few KiB and fewer than ten levels,
// including managedFields.
const (
	MaxObject = 1 << 20
	maxDepth  = 64
	// A file of another kind has a problem in every line.
	maxProblems = 50
)

const (
	configGroup        = "config.openshift.io/v1"
	operatorGroup      = "operator.openshift.io/v1alpha1"
	kindAPIServer      = "APIServer"
	kindHTTP01Proxy    = "HTTP01Proxy"
	kindInfrastructure = "Infrastructure"
	singleton          = "cluster" // the name of the platform's objects
)

// allKinds returns the kinds of objects that a List may contain.
func allKinds() []string { return []string{kindAPIServer, kindHTTP01Proxy, kindInfrastructure} }

// apiVersionOf returns the group and version of a kind.
func apiVersionOf(kind string) string {
	if kind == kindHTTP01Proxy {
		return operatorGroup
	}
	return configGroup
}

// singletons returns the names that the one object of a kind can have.
func singletons(kind string) []string {
	if kind == kindHTTP01Proxy {
		return []string{operatorv1alpha1.NameCluster, operatorv1alpha1.NameDefault}
	}
	return []string{singleton}
}

type clusterObject struct {
	file string
	kind string
	node *yaml.Node
}

// clusterReader reads objects and collects all problems.
type clusterReader struct {
	strict          bool
	limit           int // bytes of a file; 0: MaxObject
	warnings        []warning
	problems        []error
	omittedProblems int // number of problems beyond the limit
}

func (r *clusterReader) reject(file, message, remediation string) {
	r.add(problem(file, message, remediation))
}

func (r *clusterReader) rejectAt(file string, n *yaml.Node, message, remediation string) {
	r.add(problemAt(file, n, message, remediation))
}

func (r *clusterReader) add(problem error) {
	if len(r.problems) == maxProblems {
		r.omittedProblems++
		return
	}
	r.problems = append(r.problems, problem)
}

// joinedProblems returns all problems and then the unknown fields: a field that is
// missing may be present with a misspelt name.
func (r *clusterReader) joinedProblems() error {
	if len(r.problems) == 0 {
		return nil
	}
	all := slices.Clone(r.problems)
	if r.omittedProblems > 0 {
		all = append(all, fmt.Errorf("and %d more", r.omittedProblems))
	}
	for _, w := range r.warnings {
		all = append(all, problem(w.where, "warning: "+w.message, cmp.Or(w.suggestion, "it is left out")))
	}
	return errors.Join(all...)
}

func position(file string, n *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", file, max(n.Line, 1), max(n.Column, 1))
}

// readObjects finds the objects by their kind. A missing or invalid object is recorded
// as a problem, except for a missing HTTP01Proxy. It reports whether all files are
// valid.
func (r *clusterReader) readObjects(c ClusterObjects) (found map[string]*clusterObject, valid bool) {
	flags := map[*Input][]string{} // the kinds that a file was given for
	var files []*Input
	for _, given := range c.files() {
		if flags[given.in] == nil {
			files = append(files, given.in)
		}
		flags[given.in] = append(flags[given.in], given.kind)
	}
	found = map[string]*clusterObject{}
	valid = true
	for _, in := range files {
		all, ok := r.readFile(*in, flags[in])
		valid = valid && ok
		for _, o := range all {
			if first := found[o.kind]; first != nil {
				r.rejectAt(o.file, o.node, "a second "+o.kind+", after the one at "+position(first.file, first.node), "give one")
				continue
			}
			found[o.kind] = &o
		}
	}
	if !valid { // an invalid file may contain a missing object
		return found, false
	}
	switch {
	case found[kindAPIServer] != nil || found[kindHTTP01Proxy] != nil || c.HTTP01Proxy != nil:
	case c.APIServer != nil:
		r.reject(c.APIServer.Name, "contains no "+kindAPIServer, objectRemediation(kindAPIServer))
	default:
		r.reject(files[0].Name, "contains no "+kindAPIServer+" and no "+kindHTTP01Proxy, "give --apiserver FILE or --http01proxy FILE (APISERVER=FILE or HTTP01PROXY=FILE of make) too")
	}
	switch {
	case found[kindInfrastructure] != nil:
	case c.Infrastructure != nil:
		r.reject(c.Infrastructure.Name, "contains no "+kindInfrastructure, objectRemediation(kindInfrastructure))
	default:
		r.reject(files[0].Name, "contains no "+kindInfrastructure, fmt.Sprintf("give --infrastructure FILE (INFRASTRUCTURE=FILE of make) too, with the output of \"%s\"", ocGetCommand(kindInfrastructure)))
	}
	return found, true
}

// ocGetCommand returns the command that prints an object. The one for an HTTP01Proxy
// prints a List, which is empty if there is no object.
func ocGetCommand(kind string) string {
	if kind == kindHTTP01Proxy {
		return "oc get http01proxies -A -o yaml"
	}
	return "oc get " + strings.ToLower(kind) + " " + singleton + " -o yaml"
}

func objectRemediation(kinds ...string) string {
	command := "oc get apiserver/cluster infrastructure/cluster -o yaml"
	switch {
	case len(kinds) == 1:
		command = ocGetCommand(kinds[0])
	case slices.Contains(kinds, kindHTTP01Proxy):
		command = "oc get http01proxies,infrastructures -A -o yaml"
	}
	return "give the output of \"" + command + "\""
}

// readFile reads the objects of a file that was given for these kinds. It reports
// whether the file is valid.
func (r *clusterReader) readFile(in Input, kinds []string) (all []clusterObject, ok bool) {
	remediation := objectRemediation(kinds...)
	before := len(r.problems) + r.omittedProblems
	root := r.readDocument(in, remediation)
	if root == nil {
		return nil, false
	}
	apiVersion, kind := stringValue(member(root, "apiVersion")), stringValue(member(root, "kind"))
	var items []*yaml.Node
	switch {
	case apiVersion == "v1" && kind == "List",
		slices.ContainsFunc(allKinds(), func(k string) bool { return kind == k+"List" && apiVersion == apiVersionOf(k) }):
		items = r.listItems(in.Name, root, remediation)
		kinds = allKinds() // "oc get" of several objects prints one List
	default:
		items = []*yaml.Node{root}
	}
	for _, item := range items {
		if o, ok := r.readObject(in.Name, item, kinds, remediation); ok {
			all = append(all, o)
		}
	}
	return all, len(r.problems)+r.omittedProblems == before
}

func (r *clusterReader) listItems(file string, list *yaml.Node, remediation string) []*yaml.Node {
	items := member(list, "items")
	switch {
	case items == nil || jsonType(items) == "null":
		return nil
	case items.Kind != yaml.SequenceNode:
		r.rejectAt(file, items, "items is not a list", remediation)
		return nil
	}
	return items.Content
}

func (r *clusterReader) readObject(file string, n *yaml.Node, kinds []string, remediation string) (clusterObject, bool) {
	if n.Kind != yaml.MappingNode {
		r.rejectAt(file, n, "not an object", remediation)
		return clusterObject{}, false
	}
	kind, apiVersion := member(n, "kind"), member(n, "apiVersion")
	place := n
	switch {
	case !slices.Contains(kinds, stringValue(kind)):
		if kind != nil {
			place = kind
		}
	case stringValue(apiVersion) != apiVersionOf(stringValue(kind)):
		if apiVersion != nil {
			place = apiVersion
		}
	default:
		o := clusterObject{file, stringValue(kind), n}
		r.checkEnvelope(o)
		return o, true
	}
	switch what := describeKinds(kinds); {
	case kind == nil && apiVersion == nil:
		r.rejectAt(file, place, "has no kind and no apiVersion, but must be "+what, remediation)
	case kind == nil:
		r.rejectAt(file, place, "has no kind, but must be "+what, remediation)
	case apiVersion == nil:
		r.rejectAt(file, place, "has no apiVersion, but must be "+what, remediation)
	default:
		r.rejectAt(file, place, fmt.Sprintf("%s of %s is not %s", quotedValue(kind), quotedValue(apiVersion), what), remediation)
	}
	return clusterObject{}, false
}

// describeKinds returns the kinds with their versions.
func describeKinds(kinds []string) string {
	var parts []string
	if platform := slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == kindHTTP01Proxy }); len(platform) > 0 {
		parts = append(parts, "an "+strings.Join(platform, " or ")+" of "+configGroup)
	}
	if slices.Contains(kinds, kindHTTP01Proxy) {
		parts = append(parts, "an "+kindHTTP01Proxy+" of "+operatorGroup)
	}
	return strings.Join(parts, ", or ")
}

// checkEnvelope validates the fields that every object has, and the name, which is the
// same in each cluster. The revisions of the HTTP01Proxy differ in its scope.
func (r *clusterReader) checkEnvelope(o clusterObject) {
	r.checkFields(o)
	metadata := nonNullMember(o.node, "metadata")
	if metadata == nil {
		r.rejectAt(o.file, o.node, "metadata.name: Required value", nameRemediation)
		return
	}
	if !r.requireObject(o.file, metadata, "metadata") {
		return
	}
	switch name := nonNullMember(metadata, "name"); {
	case name == nil:
		r.rejectAt(o.file, metadata, "metadata.name: Required value", nameRemediation)
	case !slices.Contains(singletons(o.kind), stringValue(name)):
		r.rejectAt(o.file, name, fmt.Sprintf("the name is %s, but a cluster has only the %s \"%s\"", quotedValue(name), o.kind, strings.Join(singletons(o.kind), `" or "`)), objectRemediation(o.kind))
	}
	if namespace := nonNullMember(metadata, "namespace"); namespace != nil && !isBlank(namespace) && o.kind != kindHTTP01Proxy {
		r.rejectAt(o.file, namespace, "metadata.namespace: Forbidden: not allowed on this type", "delete it: the object is cluster-scoped")
	}
}

const nameRemediation = "write metadata: {name: " + singleton + "}"

// recordUnknownField records a field that the API server would drop with a warning.
// meant is a suggestion: a known field with a similar name, or empty.
func (r *clusterReader) recordUnknownField(file string, key *yaml.Node, path, meant string) {
	message := fmt.Sprintf("unknown field %.200q", path)
	switch {
	case r.strict:
		r.rejectAt(file, key, message, cmp.Or(meant, "remove it, or leave out --strict (STRICT of make) to ignore it"))
	case len(r.warnings) < maxProblems:
		r.warnings = append(r.warnings, warning{position(file, key), message, meant})
	}
}

// warning describes an unknown field that was left out.
type warning struct{ where, message, suggestion string }

func (w warning) String() string {
	if w.suggestion == "" {
		return w.where + ": " + w.message
	}
	return w.where + ": " + w.message + ": " + w.suggestion
}

func (r *clusterReader) readDocument(in Input, remediation string) *yaml.Node {
	if limit := cmp.Or(r.limit, MaxObject); len(in.Text) > limit {
		r.reject(in.Name, fmt.Sprintf("longer than %d bytes", limit), remediation)
		return nil
	}
	if !utf8.Valid(in.Text) {
		r.reject(in.Name, "not valid YAML: not UTF-8", remediation)
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(replaceSurrogates(in.Text)), yaml.WithPlugin(yamlLimits{}))
	if err != nil {
		r.rejectSyntax(in.Name, err, remediation)
		return nil
	}
	doc, ok := r.singleDocument(in.Name, loader, remediation)
	if !ok {
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		r.rejectAt(in.Name, root, "not an object", remediation)
		return nil
	}
	if alias := findAlias(doc); alias != nil {
		r.rejectAt(in.Name, alias, "anchors, aliases and merge keys are not supported", remediation)
		return nil
	}
	before := len(r.problems) + r.omittedProblems
	r.rejectDuplicateKeys(in.Name, root, remediation)
	if len(r.problems)+r.omittedProblems > before {
		return nil
	}
	return root
}

// singleDocument returns the one document with content. Empty documents are ignored:
// some tools write "---" around each document.
func (r *clusterReader) singleDocument(file string, loader *yaml.Loader, remediation string) (*yaml.Node, bool) {
	var found *yaml.Node
	for {
		var doc yaml.Node
		err := loader.Load(&doc)
		switch {
		case errors.Is(err, io.EOF) && found == nil:
			r.reject(file, "contains no object", remediation)
			return nil, false
		case errors.Is(err, io.EOF):
			return found, true
		case err != nil:
			r.rejectSyntax(file, err, remediation)
			return nil, false
		case len(doc.Content) == 0 || jsonType(doc.Content[0]) == "null":
		case found != nil:
			r.rejectAt(file, &doc, "a second document", "keep one object or one List: "+remediation)
			return nil, false
		default:
			found = &doc
		}
	}
}

// rejectDuplicateKeys rejects keys that appear twice in one mapping: parsers differ in
// the value that they use.
func (r *clusterReader) rejectDuplicateKeys(file string, n *yaml.Node, remediation string) {
	if n.Kind == yaml.MappingNode {
		seen := make(map[string]bool, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			switch {
			case key.Kind != yaml.ScalarNode:
				r.rejectAt(file, key, "a key that is not a text", remediation)
			case seen[key.Value]:
				r.rejectAt(file, key, fmt.Sprintf("duplicate key %.100q", key.Value), "remove one of the two")
			}
			seen[key.Value] = true
		}
	}
	for _, child := range n.Content {
		r.rejectDuplicateKeys(file, child, remediation)
	}
}

// rejectSyntax records an error of the YAML library with its position. The name of an
// anchor is omitted: the administrator may have given another file by mistake, with
// secrets in it.
func (r *clusterReader) rejectSyntax(file string, err error, remediation string) {
	var load *yaml.LoadError
	at, message := yaml.Node{}, err.Error()
	if errors.As(err, &load) {
		at.Line, at.Column, message = load.Mark.Line, load.Mark.Column, load.Message
	}
	if before, _, is := strings.Cut(message, " anchor '"); is {
		message = before + " anchor"
	}
	r.rejectAt(file, &at, "not valid YAML: "+message, remediation)
}

// yamlLimits bounds the work of the YAML library.
type yamlLimits struct{}

// CheckDepth limits the nesting.
func (yamlLimits) CheckDepth(depth int, _ *yaml.DepthContext) error {
	if depth > maxDepth {
		return fmt.Errorf("nested more than %d levels deep", maxDepth)
	}
	return nil
}

// CheckAlias accepts everything: aliases are refused later, and nodes do not resolve
// them.
func (yamlLimits) CheckAlias(int, int) error { return nil }

func stringValue(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return ""
	}
	return n.Value
}

func quotedValue(n *yaml.Node) string {
	if stringValue(n) == "" {
		return `""`
	}
	return fmt.Sprintf("%.100q", n.Value)
}
