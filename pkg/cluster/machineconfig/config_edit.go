// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// configEdit sets or removes one value of a configuration. A different value in the
// configuration is a conflict, unless that value is blank.
type configEdit struct {
	keys   []string
	value  string   // the value as text, or
	list   []string // the value
	source string   // the file with the value, for messages; empty: the configuration takes precedence
	remove bool     // remove the key instead

	tag     string // the tag of a plain value; empty for a quoted text
	replace bool   // replace an existing value
	comment string // line comment; empty keeps the existing comment
}

type configEdits []configEdit

// applyTo returns the configuration with all edits applied. Comments are kept. Without
// edits it returns the configuration unchanged.
func (c configEdits) applyTo(configuration Input) (Input, error) {
	if len(c) == 0 {
		return configuration, nil
	}
	root, document := parseMapping(configuration.Text)
	var problems []error
	changed := false
	for _, one := range c {
		done, err := one.apply(configuration.Name, root)
		problems, changed = append(problems, err), changed || done
	}
	if err := errors.Join(problems...); err != nil || !changed {
		return configuration, err
	}
	var text bytes.Buffer
	if document == root { // the configuration has only comments
		text.Write(configuration.Text)
	}
	dumper, err := yaml.NewDumper(&text, yaml.WithIndent(2))
	if err == nil {
		err = errors.Join(dumper.Dump(document), dumper.Close())
	}
	if err == nil {
		_, err = config.Parse(configuration.Name, text.Bytes())
	}
	if err != nil {
		return configuration, fmt.Errorf("cannot edit %s: %w", configuration.Name, err)
	}
	return Input{Name: configuration.Name, Text: text.Bytes()}, nil
}

// parseMapping returns the top-level mapping of a configuration and the document that
// contains it. For an empty configuration both are the same empty mapping.
func parseMapping(text []byte) (root, document *yaml.Node) {
	var doc yaml.Node
	if err := yaml.Load(text, &doc); err == nil && len(doc.Content) > 0 && doc.Content[0].Kind == yaml.MappingNode {
		return doc.Content[0], &doc
	}
	root = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	return root, root
}

func (c configEdit) apply(name string, root *yaml.Node) (changed bool, err error) {
	existing := nodeAt(root, c.keys)
	switch {
	case c.remove:
		return removeKey(root, c.keys), nil
	case c.replace:
	case existing != nil && !isBlank(existing) && c.source == "":
		return false, nil
	case existing != nil && !isBlank(existing):
		return false, conflictProblem(name, c.keys, existing, c.source)
	case c.list == nil && c.value == "":
		return false, nil
	}
	value := yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: c.value, Style: yaml.DoubleQuotedStyle}
	if c.tag != "" && c.value != "" {
		value.Tag, value.Style = c.tag, 0
	}
	if c.list != nil {
		value = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle}
		for _, entry := range c.list {
			value.Content = append(value.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: entry, Style: yaml.DoubleQuotedStyle})
		}
	}
	if c.comment != "" && !inFlowStyle(root, c.keys) {
		value.LineComment = "# " + c.comment
	}
	if existing != nil {
		value.HeadComment, value.FootComment = existing.HeadComment, existing.FootComment
		if value.LineComment == "" {
			value.LineComment = existing.LineComment
		}
		*existing = value
		return true, nil
	}
	at, last := root, len(c.keys)-1
	for _, key := range c.keys[:last] {
		at = ensureMapping(at, key)
	}
	at.Content = append(at.Content, stringNode(c.keys[last]), &value)
	return true, nil
}

// inFlowStyle reports whether a key is, or would be, written between braces. A comment
// there extends to the end of the line, and not all parsers accept what follows.
func inFlowStyle(root *yaml.Node, keys []string) bool {
	for i := range keys {
		if at := nodeAt(root, keys[:i]); at != nil && at.Style&yaml.FlowStyle != 0 {
			return true
		}
	}
	return false
}

func removeKey(root *yaml.Node, keys []string) bool {
	last := len(keys) - 1
	above := nodeAt(root, keys[:last])
	if above == nil || above.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(above.Content); i += 2 {
		if above.Content[i].Value == keys[last] {
			above.Content = slices.Delete(above.Content, i, i+2)
			return true
		}
	}
	return false
}

// isBlank reports whether a value is an empty text, null or an empty list.
func isBlank(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && (n.Value == "" || n.Tag == "!!null") || n.Kind == yaml.SequenceNode && len(n.Content) == 0
}

// conflictProblem is the error for a key that is set both in the configuration and by
// another file.
func conflictProblem(name string, keys []string, at *yaml.Node, source string) error {
	return problemAt(name, at, fmt.Sprintf("%s is also set by %s", strings.Join(keys, "."), source), "remove one of the two")
}

func nodeAt(n *yaml.Node, keys []string) *yaml.Node {
	for _, key := range keys {
		n = member(n, key)
		if n == nil {
			return nil
		}
	}
	return n
}

func member(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// ensureMapping returns the mapping at key. It creates the mapping if the key is absent
// or its value has another type.
func ensureMapping(n *yaml.Node, key string) *yaml.Node {
	existing := member(n, key)
	if existing == nil {
		existing = &yaml.Node{}
		n.Content = append(n.Content, stringNode(key), existing)
	}
	if existing.Kind != yaml.MappingNode {
		*existing = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	return existing
}

func stringNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}
