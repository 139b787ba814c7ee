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
)

// What is taken of a cluster's object. Real ones are of a few KiB and nest less
// than ten deep, the fields' managers included.
const (
	MaxObject = 1 << 20
	maxDepth  = 64
	// A file that is something else altogether has a problem in every line.
	maxProblems = 50
)

const (
	configGroup        = "config.openshift.io/v1"
	kindAPIServer      = "APIServer"
	kindInfrastructure = "Infrastructure"
	singleton          = "cluster" // the name of either: there is one in a cluster
)

// clusterObject is one object, and the file that it is in.
type clusterObject struct {
	file string
	kind string
	node *yaml.Node
}

// clusterReader collects every problem that it meets.
type clusterReader struct {
	strict   bool
	warnings []warning
	problems []error
	more     int // problems that are counted only
}

func (r *clusterReader) refuse(where, message, mend string) {
	if len(r.problems) == maxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, Problem{where, message, mend})
}

// error tells all problems, and then what was left out: a field that is missed may
// be one of those, in other letters.
func (r *clusterReader) error() error {
	if len(r.problems) == 0 {
		return nil
	}
	all := slices.Clone(r.problems)
	if r.more > 0 {
		all = append(all, fmt.Errorf("and %d more", r.more))
	}
	for _, w := range r.warnings {
		all = append(all, Problem{w.where, "warning: " + w.message, cmp.Or(w.meant, "it is left out")})
	}
	return errors.Join(all...)
}

func placeOf(file string, n *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", file, max(n.Line, 1), max(n.Column, 1))
}

// objects finds both objects. One that is missing or unfit is a problem, and nil.
func (r *clusterReader) objects(c Cluster) (apiServer, infrastructure *clusterObject) {
	flags := map[*Input][]string{} // which kinds a file was given for
	var files []*Input
	for _, given := range []struct {
		in   *Input
		kind string
	}{{c.APIServer, kindAPIServer}, {c.Infrastructure, kindInfrastructure}} {
		if given.in == nil {
			continue
		}
		if flags[given.in] == nil {
			files = append(files, given.in)
		}
		flags[given.in] = append(flags[given.in], given.kind)
	}
	found := map[string]*clusterObject{}
	unfit := false
	for _, in := range files {
		all, ok := r.file(*in, flags[in])
		unfit = unfit || !ok
		for _, o := range all {
			if first := found[o.kind]; first != nil {
				r.refuse(placeOf(o.file, o.node), "a second "+o.kind+", after that of "+placeOf(first.file, first.node), "give one")
				continue
			}
			found[o.kind] = &o
		}
	}
	for i, kind := range []string{kindAPIServer, kindInfrastructure} {
		if found[kind] != nil || unfit { // that file may be the one that has it
			continue
		}
		in := []*Input{c.APIServer, c.Infrastructure}[i]
		if in != nil {
			r.refuse(in.Name, "holds no "+kind, mendObjects(kind))
			continue
		}
		r.refuse(files[0].Name, "holds no "+kind+" beside the other object", fmt.Sprintf("give --%s FILE (%s=FILE of make) too, with what \"%s\" prints", strings.ToLower(kind), strings.ToUpper(kind), ocGet(kind)))
	}
	return found[kindAPIServer], found[kindInfrastructure]
}

func ocGet(kind string) string {
	return "oc get " + strings.ToLower(kind) + " " + singleton + " -o yaml"
}

// mendObjects says where objects of these kinds come from.
func mendObjects(kinds ...string) string {
	if len(kinds) == 1 {
		return fmt.Sprintf("give what \"%s\" prints", ocGet(kinds[0]))
	}
	return `give what "oc get apiserver/cluster infrastructure/cluster -o yaml" prints`
}

// file reads the objects of one file, which was given for these kinds. It reports
// whether the file is fit.
func (r *clusterReader) file(in Input, kinds []string) (all []clusterObject, ok bool) {
	mend := mendObjects(kinds...)
	before := len(r.problems) + r.more
	root := r.document(in, mend)
	if root == nil {
		return nil, false
	}
	apiVersion, kind := textOf(member(root, "apiVersion")), textOf(member(root, "kind"))
	var items []*yaml.Node
	switch {
	case apiVersion == "v1" && kind == "List",
		apiVersion == configGroup && (kind == kindAPIServer+"List" || kind == kindInfrastructure+"List"):
		items = r.items(in.Name, root, mend)
		kinds = []string{kindAPIServer, kindInfrastructure} // "oc get" of both prints one List
	default:
		items = []*yaml.Node{root}
	}
	for _, item := range items {
		if o, ok := r.object(in.Name, item, kinds, mend); ok {
			all = append(all, o)
		}
	}
	return all, len(r.problems)+r.more == before
}

func (r *clusterReader) items(file string, list *yaml.Node, mend string) []*yaml.Node {
	items := member(list, "items")
	switch {
	case items == nil || isNull(items):
		return nil
	case items.Kind != yaml.SequenceNode:
		r.refuse(placeOf(file, items), "items is no list", mend)
		return nil
	}
	return items.Content
}

// object takes what is one of the kinds.
func (r *clusterReader) object(file string, n *yaml.Node, kinds []string, mend string) (clusterObject, bool) {
	if n.Kind != yaml.MappingNode {
		r.refuse(placeOf(file, n), "not an object", mend)
		return clusterObject{}, false
	}
	kind, apiVersion := member(n, "kind"), member(n, "apiVersion")
	place := n
	switch {
	case !slices.Contains(kinds, textOf(kind)):
		if kind != nil {
			place = kind
		}
	case textOf(apiVersion) != configGroup:
		if apiVersion != nil {
			place = apiVersion
		}
	default:
		o := clusterObject{file, textOf(kind), n}
		r.envelope(o)
		return o, true
	}
	switch what := article(strings.Join(kinds, " or ")) + " of " + configGroup; {
	case kind == nil && apiVersion == nil:
		r.refuse(placeOf(file, place), "has no kind and no apiVersion, and is to be "+what, mend)
	case kind == nil:
		r.refuse(placeOf(file, place), "has no kind, and is to be "+what, mend)
	case apiVersion == nil:
		r.refuse(placeOf(file, place), "has no apiVersion, and is to be "+what, mend)
	default:
		r.refuse(placeOf(file, place), fmt.Sprintf("%s of %s is not %s", named(kind), named(apiVersion), what), mend)
	}
	return clusterObject{}, false
}

// envelope judges what every object has: the name, which is the same in each
// cluster, and what may stand beside it.
func (r *clusterReader) envelope(o clusterObject) {
	r.known(o)
	metadata := set(o.node, "metadata")
	if metadata == nil {
		r.refuse(placeOf(o.file, o.node), "metadata.name: Required value", mendName)
		return
	}
	if !r.isObject(o.file, metadata, "metadata") {
		return
	}
	switch name := set(metadata, "name"); {
	case name == nil:
		r.refuse(placeOf(o.file, metadata), "metadata.name: Required value", mendName)
	case textOf(name) != singleton:
		r.refuse(placeOf(o.file, name), fmt.Sprintf("the name is %s, and a cluster has only the %s %q", named(name), o.kind, singleton), mendObjects(o.kind))
	}
	if namespace := set(metadata, "namespace"); namespace != nil && !blank(namespace) {
		r.refuse(placeOf(o.file, namespace), "metadata.namespace: Forbidden: not allowed on this type", "delete it: there is one for the whole cluster")
	}
}

const mendName = "write metadata: {name: " + singleton + "}"

// unknown is a field that the API server would leave out, and say so; meant is what
// it may have been meant as.
func (r *clusterReader) unknown(file string, key *yaml.Node, path, meant string) {
	message := fmt.Sprintf("unknown field %.200q", path)
	switch {
	case r.strict:
		r.refuse(placeOf(file, key), message, cmp.Or(meant, "take it out, or leave --strict (STRICT of make) out to have it left out"))
	case len(r.warnings) < maxProblems:
		r.warnings = append(r.warnings, warning{placeOf(file, key), message, meant})
	}
}

// warning is of what was left out.
type warning struct{ where, message, meant string }

func (w warning) String() string {
	if w.meant == "" {
		return w.where + ": " + w.message
	}
	return w.where + ": " + w.message + ": " + w.meant
}

// document returns the file's one document, which is sound, or nil.
func (r *clusterReader) document(in Input, mend string) *yaml.Node {
	if len(in.Text) > MaxObject {
		r.refuse(in.Name, fmt.Sprintf("longer than %d bytes", MaxObject), mend)
		return nil
	}
	if !utf8.Valid(in.Text) {
		r.refuse(in.Name, "not valid YAML: not UTF-8", mend)
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(withoutSurrogates(in.Text)), yaml.WithPlugin(limits{}))
	if err != nil {
		r.syntax(in.Name, err, mend)
		return nil
	}
	doc, ok := r.only(in.Name, loader, mend)
	if !ok {
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		r.refuse(placeOf(in.Name, root), "not an object", mend)
		return nil
	}
	if alias := alias(doc); alias != nil {
		r.refuse(placeOf(in.Name, alias), "anchors, aliases and merge keys are not taken", mend)
		return nil
	}
	before := len(r.problems) + r.more
	r.twice(in.Name, root, mend)
	if len(r.problems)+r.more > before {
		return nil
	}
	return root
}

// only returns the one document that holds something. Those that hold nothing are
// left over by tools that write "---" around each.
func (r *clusterReader) only(file string, loader *yaml.Loader, mend string) (*yaml.Node, bool) {
	var found *yaml.Node
	for {
		var doc yaml.Node
		err := loader.Load(&doc)
		switch {
		case errors.Is(err, io.EOF) && found == nil:
			r.refuse(file, "holds no object", mend)
			return nil, false
		case errors.Is(err, io.EOF):
			return found, true
		case err != nil:
			r.syntax(file, err, mend)
			return nil, false
		case len(doc.Content) == 0 || isNull(doc.Content[0]):
		case found != nil:
			r.refuse(placeOf(file, &doc), "a second document", "keep one, which may be a List of both: "+mend)
			return nil, false
		default:
			found = &doc
		}
	}
}

// twice refuses keys that stand twice in one mapping: which of the two counts is
// every reader's own choice.
func (r *clusterReader) twice(file string, n *yaml.Node, mend string) {
	if n.Kind == yaml.MappingNode {
		seen := make(map[string]bool, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			switch {
			case key.Kind != yaml.ScalarNode:
				r.refuse(placeOf(file, key), "a key that is no text", mend)
			case seen[key.Value]:
				r.refuse(placeOf(file, key), fmt.Sprintf("the key %.100q stands twice", key.Value), "keep one of the two")
			}
			seen[key.Value] = true
		}
	}
	for _, child := range n.Content {
		r.twice(file, child, mend)
	}
}

// syntax places what the YAML library says. The name of an anchor is left out: the
// file may be another one than the admin thinks, and hold secrets.
func (r *clusterReader) syntax(file string, err error, mend string) {
	var load *yaml.LoadError
	where, said := file, err.Error()
	if errors.As(err, &load) {
		where, said = fmt.Sprintf("%s:%d:%d", file, max(load.Mark.Line, 1), max(load.Mark.Column, 1)), load.Message
	}
	if before, _, is := strings.Cut(said, " anchor '"); is {
		said = before + " anchor"
	}
	r.refuse(where, "not valid YAML: "+said, mend)
}

// limits bound what the YAML library does for a file.
type limits struct{}

// CheckDepth bounds how deep things nest.
func (limits) CheckDepth(depth int, _ *yaml.DepthContext) error {
	if depth > maxDepth {
		return fmt.Errorf("it nests more than %d deep", maxDepth)
	}
	return nil
}

// CheckAlias has nothing to bound: aliases are not taken, and nodes do not follow
// them.
func (limits) CheckAlias(int, int) error { return nil }

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// textOf is a scalar's, if there is one.
func textOf(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return ""
	}
	return n.Value
}

// named is a text for a message.
func named(n *yaml.Node) string {
	if textOf(n) == "" {
		return `""`
	}
	return fmt.Sprintf("%.100q", n.Value)
}

func article(noun string) string {
	if strings.ContainsRune("AEIOU", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}
