// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"
)

// maxObject is above what etcd takes.
const maxObject = 2 << 20

// Problem is one thing that stands in the way, and what mends it.
type Problem struct {
	Where   string // the file, with line and column where they are known
	Message string
	Mend    string
}

// Error gives "where: message: mend".
func (p Problem) Error() string {
	return fmt.Sprintf("%s: %s: %s", p.Where, p.Message, p.Mend)
}

const getMend = `give what "oc get machineconfiguration cluster -o yaml" prints`

// document is a MachineConfiguration as an admin has it, with every comment
// and in its own order.
type document struct {
	name string // of the file
	json bool
	node *yaml.Node // a document with one mapping

	indent  int // as layout has found it before any change
	compact bool
}

// parse reads a MachineConfiguration "cluster", in YAML or JSON.
func parse(name string, data []byte) (document, error) {
	d := document{name: name}
	if len(data) > maxObject {
		return d, Problem{name, fmt.Sprintf("longer than %d bytes", maxObject), getMend}
	}
	var err error
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' {
		d.json = true
		d.node, err = parseJSON(trimmed)
		if err != nil { // a YAML flow mapping begins like this too
			d.json = false
		}
	}
	if !d.json {
		d.node, err = parseYAML(data)
	}
	if err != nil {
		return d, Problem{name, fmt.Sprintf("neither YAML nor JSON (%v)", err), getMend}
	}
	d.indent, d.compact = layout(d.node)
	return d, d.identify()
}

func parseYAML(data []byte) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	var node, second yaml.Node
	if err := loader.Load(&node); errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty")
	} else if err != nil {
		return nil, err
	}
	if err := loader.Load(&second); err == nil {
		return nil, errors.New("it holds more than one document")
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return &node, nil
}

// identify refuses every other object.
func (d document) identify() error {
	if len(d.node.Content) == 0 || d.node.Content[0].Kind != yaml.MappingNode {
		return Problem{d.name, "not an object", getMend}
	}
	root := d.node.Content[0]
	metadata, err := d.child(root, "metadata")
	if err != nil {
		return err
	}
	var problems []error
	for _, want := range []struct {
		in         *yaml.Node
		key, value string
	}{{root, "apiVersion", apiVersion}, {root, "kind", objectKind}, {metadata, "name", objectName}} {
		got := ""
		if want.in != nil && want.in.Kind == yaml.MappingNode {
			node, err := d.child(want.in, want.key)
			if err != nil {
				return err
			}
			if node != nil {
				got = node.Value
			}
		}
		if got != want.value {
			problems = append(problems, Problem{d.name, fmt.Sprintf("%s is %q, not %q", want.key, got, want.value), getMend})
		}
	}
	return errors.Join(problems...)
}

func (d document) problem(n *yaml.Node, mend, format string, args ...any) Problem {
	where := d.name
	if n != nil && n.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", d.name, n.Line, n.Column)
	}
	return Problem{where, fmt.Sprintf(format, args...), mend}
}

// child gives the value of a key, nil when there is none. What cannot be
// changed without touching something else is refused.
func (d document) child(in *yaml.Node, key string) (*yaml.Node, error) {
	if in == nil || isNull(in) {
		return nil, nil //nolint:nilnil // no parent, no child, no error
	}
	if in.Kind != yaml.MappingNode {
		return nil, d.problem(in, getMend, "what should hold %s is not a mapping", key)
	}
	var found *yaml.Node
	for i := 0; i+1 < len(in.Content); i += 2 {
		if in.Content[i].Value != key || in.Content[i].Kind != yaml.ScalarNode {
			continue
		}
		if found != nil {
			return nil, d.problem(in.Content[i], "keep one", "key %s stands twice", key)
		}
		found = in.Content[i+1]
	}
	if found != nil && (found.Kind == yaml.AliasNode || found.Anchor != "") {
		return nil, d.problem(found, "write the value out", "%s has an anchor or is an alias", key)
	}
	return found, nil
}

// grow gives the value of a key and makes it when it is absent or null.
func (d document) grow(in *yaml.Node, key string, as yaml.Kind) (*yaml.Node, error) {
	node, err := d.child(in, key)
	if err != nil {
		return nil, err
	}
	tag := "!!map"
	if as == yaml.SequenceNode {
		tag = "!!seq"
	}
	switch {
	case node == nil:
		node = &yaml.Node{Kind: as, Tag: tag}
		in.Content = append(in.Content, stringNode(key), node)
	case isNull(node):
		node.Kind, node.Tag, node.Value, node.Style = as, tag, "", 0
	case node.Kind != as:
		return nil, d.problem(node, getMend, "%s is something else than the API has", key)
	}
	if len(node.Content) == 0 {
		node.Style &^= yaml.FlowStyle // [] and {} cannot grow in block style
	}
	return node, nil
}

// prune takes a key away whose value is an empty list or mapping.
func prune(in *yaml.Node, key string) {
	for i := 0; in != nil && i+1 < len(in.Content); i += 2 {
		if in.Content[i].Value == key && in.Content[i+1].Kind != yaml.ScalarNode && len(in.Content[i+1].Content) == 0 {
			in.Content = append(in.Content[:i], in.Content[i+2:]...)
			return
		}
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// write gives the document back in the form that it came in.
func (d document) write() ([]byte, error) {
	if d.json {
		return writeJSON(d.node.Content[0])
	}
	out, err := yaml.Dump(d.node, yaml.WithIndent(d.indent), yaml.WithCompactSeqIndent(d.compact), yaml.WithLineWidth(-1), yaml.WithQuotePreference(yaml.QuoteLegacy))
	if err != nil {
		return nil, fmt.Errorf("write the merged object: %w", err)
	}
	return out, nil
}

// layout finds out how a document is indented: by how much, and whether the
// dashes of a list stand below its key (as oc writes) or further in.
func layout(n *yaml.Node) (indent int, compact bool) {
	indent, compact = 2, true
	foundIndent, foundList := false, false
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		for i, child := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 1 && n.Style&yaml.FlowStyle == 0 && child.Style&yaml.FlowStyle == 0 && len(child.Content) > 0 {
				deeper := child.Column - n.Content[i-1].Column
				switch {
				case child.Kind == yaml.SequenceNode && !foundList && deeper >= 0:
					compact, foundList = deeper == 0, true
				case child.Kind == yaml.MappingNode && !foundIndent && deeper >= 2 && deeper <= 9:
					indent, foundIndent = deeper, true
				}
			}
			walk(child)
		}
	}
	walk(n)
	return indent, compact
}
